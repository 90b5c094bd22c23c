// SPDX-License-Identifier: Apache-2.0
#include "io/sentinel.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "base/event_count.h"
#include "base/never_destroyed.h"
#include "base/processor.h"
#include "observe/log.h"

namespace sluice::io {

namespace {

// A reader that has not got on from one look to the next is stuck.
constexpr auto between_guards_looks = std::chrono::milliseconds(4);
// Then it sleeps: the next request of a loop finds it awake.
constexpr unsigned looks_in_vain = 25;

// The charge's address; the lowest bit is set while it is looked at, and then it may not go.
struct alignas(base::line_bytes) Guarded {
  std::atomic<std::uintptr_t> charge{0};
};
constexpr std::uintptr_t looking = 1;

struct GuardPost {
  std::array<Guarded, 64> places;
  base::EventCount news;
  std::atomic<bool> awake{false};
  enum class Thread : std::uint8_t { none, runs, refused };
  std::atomic<Thread> thread{Thread::none};
  std::mutex starting;
};

GuardPost& guard_post() {
  static base::NeverDestroyed<GuardPost> instance;
  return instance.get();
}

bool look_after_all(GuardPost& all) noexcept {
  bool any = false;
  for (Guarded& place : all.places) {
    // Sequentially consistent, behind the last word that this thread is awake: a weaker look may come before it.
    std::uintptr_t charge = place.charge.load(std::memory_order_seq_cst);
    if (charge == 0) continue;
    // Acquire: the charge was made before its address was put here.
    if (!place.charge.compare_exchange_strong(charge, charge | looking, std::memory_order_acquire)) continue;
    reinterpret_cast<Sentinel::Charge*>(charge)->look_in();
    place.charge.store(charge, std::memory_order_release);
    place.charge.notify_all();
    any = true;
  }
  return any;
}

void stand_guard() noexcept {
  GuardPost& all = guard_post();
  for (;;) {
    all.awake.store(true, std::memory_order_seq_cst);
    for (unsigned in_vain = 0; in_vain < looks_in_vain;) {
      constexpr timespec sleep_for{0, std::chrono::nanoseconds(between_guards_looks).count()};
      ::nanosleep(&sleep_for, nullptr);
      in_vain = look_after_all(all) ? 0 : in_vain + 1;
    }
    const std::uint32_t seen = all.news.now();
    // Either the one that comes now sees that no thread is awake, or it is seen here.
    all.awake.store(false, std::memory_order_seq_cst);
    if (!look_after_all(all)) all.news.wait_beyond(seen, std::nullopt);
  }
}

bool start_guard(GuardPost& all) noexcept {
  // Signals are for the program's threads, and none is delivered to this one while it has the lock.
  sigset_t every;
  sigset_t before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  {
    const std::lock_guard lock(all.starting);
    if (all.thread.load() == GuardPost::Thread::none) {
      try {
        std::thread thread(stand_guard);
        ::pthread_setname_np(thread.native_handle(), "sluice-sentinel");
        thread.detach();
        all.thread.store(GuardPost::Thread::runs);
      } catch (const std::exception& failure) {
        observe::log_failure(config::LogLevel::warn, "io",
                             "no thread can be started to look after kernels, so there are none that wait for bytes; "
                             "raise the limit on processes",
                             failure.what());
        all.thread.store(GuardPost::Thread::refused);
      }
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return all.thread.load() == GuardPost::Thread::runs;
}

}  // namespace

bool Sentinel::is_there() noexcept {
  GuardPost& all = guard_post();
  const GuardPost::Thread thread = all.thread.load(std::memory_order_acquire);
  return thread == GuardPost::Thread::runs || (thread == GuardPost::Thread::none && start_guard(all));
}

Sentinel::Watch::Watch(Charge& charge) noexcept {
  GuardPost& all = guard_post();
  for (std::size_t i = 0; i < all.places.size() && place_ < 0; ++i) {
    std::uintptr_t none = 0;
    std::atomic<std::uintptr_t>& place = all.places[i].charge;
    if (place.load(std::memory_order_relaxed) == 0 &&
        place.compare_exchange_strong(none, reinterpret_cast<std::uintptr_t>(&charge))) {
      place_ = static_cast<int>(i);
    }
  }
  if (place_ >= 0 && !all.awake.load(std::memory_order_seq_cst)) all.news.advance(1);
}

Sentinel::Watch::~Watch() {
  if (place_ < 0) return;
  std::atomic<std::uintptr_t>& place = guard_post().places[static_cast<std::size_t>(place_)].charge;
  for (;;) {
    std::uintptr_t charge = place.load(std::memory_order_relaxed) & ~looking;
    if (place.compare_exchange_strong(charge, 0, std::memory_order_acq_rel)) return;
    place.wait(charge, std::memory_order_acquire);  // it is looked at just now
  }
}

void sentinel_after_fork_in_child() noexcept {
  GuardPost& all = guard_post();
  for (Guarded& place : all.places) {
    place.charge.store(0, std::memory_order_relaxed);
  }
  new (&all.starting) std::mutex;
  all.awake.store(false, std::memory_order_relaxed);
  all.thread.store(GuardPost::Thread::none, std::memory_order_relaxed);
}

}  // namespace sluice::io
