// SPDX-License-Identifier: Apache-2.0
#include "workers/reserve.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/event_count.h"
#include "base/never_destroyed.h"
#include "observe/probes.h"
#include "workers/job_slot.h"
#include "workers/threads.h"

namespace sluice::workers {

namespace {

// Measured on H200s with 32 and 64 processors: more readers than this gain nothing.
constexpr unsigned most_readers = 24;

void run_one(unsigned number) noexcept;

struct Reserve {
  std::array<JobSlot, 2> slots;
  base::EventCount event;
  Threads threads{.name = "sluice-more", .run = run_one};
};

Reserve& reserve() {
  static base::NeverDestroyed<Reserve> instance;
  return instance.get();
}

// False: no job wants a helper.
bool help(JobSlot& slot, unsigned number) noexcept {
  std::uint64_t seen = slot.word.load(std::memory_order_relaxed);
  while (JobSlot::helpers(seen) > 0) {
    // Acquire: the job as it was when its helpers were asked for.
    if (!slot.word.compare_exchange_weak(seen, seen - JobSlot::one_helper + JobSlot::one_at_it,
                                         std::memory_order_acquire)) {
      continue;
    }
    {
      const observe::HelpProbe probe(slot.request.load(std::memory_order_relaxed));
      slot.job.load(std::memory_order_relaxed)->run_helper(background_worker_count() + 1 + number);
    }
    // Release: what this thread did is seen by the submitter that finds no thread at it.
    slot.word.fetch_sub(JobSlot::one_at_it, std::memory_order_release);
    return true;
  }
  return false;
}

void run_one(unsigned number) noexcept {
  Reserve& all = reserve();
  for (;;) {
    const std::uint32_t seen = all.event.now();
    // A job that comes after this look has advanced the count.
    const auto helps = [&](JobSlot& slot) { return help(slot, number); };
    if (!std::ranges::any_of(all.slots, helps)) all.event.wait_beyond(seen, std::nullopt);
  }
}

}  // namespace

unsigned reserve_count() noexcept {
  const unsigned others = 1 + worker_count();
  return std::min(processor_count(), most_readers) - std::min({processor_count(), most_readers, others});
}

JobSlot* ReserveScope::ask(Job& job, unsigned helpers) noexcept {
  const unsigned most = std::min(helpers, reserve_count());
  if (most == 0) return nullptr;
  const auto slot = std::ranges::find_if(reserve().slots, &JobSlot::take);
  if (slot == reserve().slots.end()) return nullptr;
  reserve().threads.start(reserve_count());
  slot->ask(job, observe::request_of_job(), most);
  reserve().event.advance(static_cast<int>(most));
  return &*slot;
}

void reserve_before_fork() noexcept {
  reserve().threads.starting.lock();
}

void reserve_after_fork(bool in_child) noexcept {
  if (in_child) {
    std::ranges::for_each(reserve().slots, &JobSlot::forget);
    reserve().threads.forget();
  }
  reserve().threads.starting.unlock();
}

}  // namespace sluice::workers
