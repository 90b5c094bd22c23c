// SPDX-License-Identifier: Apache-2.0
// A number that only grows, and waiting until it does, with a deadline. (The standard library's waits either have no
// deadline or need a newer libstdc++ than we may ask for.) Advancing costs no system call when no thread waits.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <optional>

namespace sluice::base {

class EventCount {
 public:
  std::uint32_t now() const noexcept { return count_.load(std::memory_order_acquire); }

  // What was written before advance() is visible where the new number is seen. `most` of those that wait are woken.
  void advance(int most = INT32_MAX) noexcept {
    count_.fetch_add(1, std::memory_order_seq_cst);
    wake(most);
  }
  // One of those that wait is woken, unless a thread looks at the number by itself. Who looks counts itself there, and
  // looks once more when it does so no longer: so it is asked behind the advance.
  void advance_unless(const std::atomic<unsigned>& looking) noexcept {
    count_.fetch_add(1, std::memory_order_seq_cst);
    if (looking.load(std::memory_order_seq_cst) == 0) wake(1);
  }

  // Returns when the number is no longer `seen`, or at `deadline` (CLOCK_MONOTONIC; none: waits for ever). False when
  // the deadline came first.
  bool wait_beyond(std::uint32_t seen, const std::optional<timespec>& deadline) const noexcept {
    if (now() != seen) return true;
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    bool in_time = true;
    while (in_time && count_.load(std::memory_order_seq_cst) == seen) {
      const timespec* until = deadline ? &*deadline : nullptr;
      in_time =
          ::syscall(SYS_futex, &count_, FUTEX_WAIT_BITSET_PRIVATE, seen, until, nullptr, FUTEX_BITSET_MATCH_ANY) == 0 ||
          errno != ETIMEDOUT;
    }
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return in_time || now() != seen;
  }

 private:
  // A waiter that is not counted yet has its look at the number still before it.
  void wake(int most) const noexcept {
    if (waiting_.load(std::memory_order_seq_cst) == 0) return;
    ::syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, most, nullptr, nullptr, 0);
  }

  std::atomic<std::uint32_t> count_{0};
  mutable std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace sluice::base
