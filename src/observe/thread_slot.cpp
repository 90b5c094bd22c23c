// SPDX-License-Identifier: Apache-2.0
#include "observe/thread_slot.h"

#include <atomic>
#include <bit>

#include "base/thread_end.h"
#include "base/thread_number.h"
#include "observe/statistics_turn.h"

namespace sluice::observe {

namespace {

static_assert(thread_slots == 64);
constexpr std::uint64_t all_slots = ~std::uint64_t{0};
constinit std::atomic<std::uint64_t> free_slots{all_slots};  // a bit each

// What its thread has counted is seen by the next one. What the thread counts from now on, in what else is done when a
// thread ends, is shared.
void give_back(void*) noexcept {
  ThreadSlot& mine = own_thread_slot;
  if (mine.own >= thread_slots) return;
  const std::uint32_t slot = mine.own;
  mine.own = thread_slots;
  end_turn_of(slot);  // a thread that is cancelled may be in the midst of it
  free_slots.fetch_or(std::uint64_t{1} << slot, std::memory_order_release);
}

constinit base::ThreadEnd at_end(give_back);

}  // namespace

const ThreadSlot& take_thread_slot() noexcept {
  ThreadSlot& mine = own_thread_slot;
  at_end.arm();
  std::uint64_t free = free_slots.load(std::memory_order_relaxed);
  while (free != 0) {
    const auto lowest = static_cast<std::uint32_t>(std::countr_zero(free));
    if (!free_slots.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire)) continue;
    mine.own = lowest;
    break;
  }
  mine.number = static_cast<std::uint32_t>(base::thread_number());
  return mine;
}

void thread_slots_after_fork_in_child() noexcept {
  const std::uint32_t mine = own_thread_slot.own;
  free_slots.store(mine < thread_slots ? all_slots & ~(std::uint64_t{1} << mine) : all_slots,
                   std::memory_order_relaxed);
}

}  // namespace sluice::observe
