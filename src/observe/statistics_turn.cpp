// SPDX-License-Identifier: Apache-2.0
#include "observe/statistics_turn.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/spin_backoff.h"

namespace sluice::observe {

namespace {

// Of <linux/membarrier.h>, since Linux 4.14.
constexpr int private_expedited = 1 << 3;
constexpr int register_private_expedited = 1 << 4;

bool membarrier(int command) noexcept {
  return ::syscall(SYS_membarrier, command, 0, 0) == 0;
}

// All threads of the process run a full fence between call and return. False: a filter of system calls was put up since
// that was arranged.
bool fence_all_threads() noexcept {
  return membarrier(private_expedited) || (membarrier(register_private_expedited) && membarrier(private_expedited));
}

// A turn is some forty instructions long. A thread that a debugger has stopped in one is not waited for.
void wait_for_turn(const std::atomic<bool>& busy) noexcept {
  constexpr int most_looks = 10000;
  base::SpinBackoff backoff(std::chrono::microseconds(50));
  for (int i = 0; i < most_looks && busy.load(std::memory_order_acquire); ++i) backoff.wait();
}

}  // namespace

void allow_turns_alone() noexcept {
  if (turns.load(std::memory_order_relaxed) != Turns::shared) return;
  if (membarrier(register_private_expedited)) turns.store(Turns::alone, std::memory_order_release);
}

TurnsPaused::TurnsPaused() noexcept : go_on_alone_(turns.load(std::memory_order_relaxed) == Turns::alone) {
  if (!go_on_alone_) return;
  turns.store(Turns::paused, std::memory_order_relaxed);
  go_on_alone_ = fence_all_threads();
  const std::uint32_t mine = own_thread_slot.own;  // busy where this is a signal handler
  for (std::size_t slot = 0; slot < turn_flags.size(); ++slot) {
    if (slot != mine) wait_for_turn(turn_flags[slot].busy);
  }
}

// Release: what was set to zero is seen by those that add to it.
TurnsPaused::~TurnsPaused() {
  if (go_on_alone_) turns.store(Turns::alone, std::memory_order_release);
}

void end_turn_of(std::uint32_t slot) noexcept {
  if (slot < turn_flags.size()) turn_flags[slot].busy.store(false, std::memory_order_release);
}

void turns_after_fork_in_child() noexcept {
  const std::uint32_t mine = own_thread_slot.own;
  for (std::size_t slot = 0; slot < turn_flags.size(); ++slot) {
    if (slot != mine) turn_flags[slot].busy.store(false, std::memory_order_relaxed);
  }
}

}  // namespace sluice::observe
