// SPDX-License-Identifier: Apache-2.0
#include "workers/aside.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "base/adaptive_mutex.h"
#include "base/event_count.h"
#include "base/never_destroyed.h"
#include "base/spin_backoff.h"
#include "gpu/cuda_api.h"
#include "workers/threads.h"

namespace sluice::workers {

namespace {

using Work = std::function<void()>;

void run_all(unsigned number) noexcept;

struct Aside {
  base::AdaptiveMutex mutex;  // of what is to be run
  Work work;
  Work behind;
  std::atomic<bool> is_at_work{false};  // from when there is some on; set with the mutex
  base::EventCount begun;
  base::EventCount ended;
  Threads threads{.name = "sluice-aside", .run = run_all};
};

base::NeverDestroyed<Aside>& instance() {
  static base::NeverDestroyed<Aside> one;
  return one;
}
Aside& aside() {
  return instance().get();
}

Work next_work(Aside& here) noexcept {
  const std::lock_guard lock(here.mutex);
  return std::exchange(here.work ? here.work : here.behind, {});
}

void has_ended(Aside& here) noexcept {
  {
    const std::lock_guard lock(here.mutex);
    if (here.behind) return;
    here.is_at_work.store(false, std::memory_order_release);
  }
  here.ended.advance();
}

void run_all(unsigned /*number*/) noexcept {
  Aside& here = aside();
  for (;;) {
    const std::uint32_t seen = here.begun.now();
    Work work = next_work(here);
    if (!work) {
      here.begun.wait_beyond(seen, std::nullopt);
      continue;
    }
    // A capture that the program has under way elsewhere neither forbids these calls nor is broken by them.
    int mode = cuda::capture_relaxed;
    if (const gpu::CudaApi* const driver = gpu::driver()) driver->exchange_capture_mode(&mode);
    work();
    work = nullptr;  // what it holds goes before the next one may come
    has_ended(here);
  }
}

enum class Place : std::uint8_t { now, behind };

bool run(Work work, Place place) noexcept {
  Aside& here = aside();
  here.threads.start(1);
  if (here.threads.running.load(std::memory_order_relaxed) == 0) return false;
  {
    const std::lock_guard lock(here.mutex);
    if (place == Place::now && here.is_at_work.load(std::memory_order_relaxed)) return false;
    work.swap(place == Place::now ? here.work : here.behind);
    here.is_at_work.store(true, std::memory_order_release);
  }
  here.begun.advance();
  return true;
}

}  // namespace

bool run_aside(std::function<void()> work) noexcept {
  return run(std::move(work), Place::now);
}

bool run_behind(std::function<void()> work) noexcept {
  return run(std::move(work), Place::behind);
}

bool is_aside() noexcept {
  return aside().is_at_work.load(std::memory_order_acquire);
}

bool wait_for_aside(std::chrono::milliseconds most) noexcept {
  const Aside& here = aside();
  const timespec deadline = base::deadline_in(most);
  for (bool in_time = true; in_time;) {
    const std::uint32_t seen = here.ended.now();
    if (!is_aside()) return true;
    in_time = here.ended.wait_beyond(seen, deadline);
  }
  return !is_aside();
}

void aside_after_fork_in_child() noexcept {
  instance().make_anew();  // what the parent's is at is not the child's to end
}

}  // namespace sluice::workers
