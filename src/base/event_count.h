// A number that only grows, and waiting until it does, with a deadline. (The standard library's waits either have no
// deadline or need a newer libstdc++ than we may ask for.)
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

  // What was written before advance() is visible to whoever sees the new number. `most` of those that wait are woken.
  void advance(int most = INT32_MAX) noexcept {
    count_.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, most, nullptr, nullptr, 0);
  }

  // Returns when the number is no longer `seen`, or at `deadline` (CLOCK_MONOTONIC; none: waits for ever). False when
  // the deadline came first.
  bool wait_beyond(std::uint32_t seen, const std::optional<timespec>& deadline) const noexcept {
    while (now() == seen) {
      const timespec* until = deadline ? &*deadline : nullptr;
      if (::syscall(SYS_futex, &count_, FUTEX_WAIT_BITSET_PRIVATE, seen, until, nullptr, FUTEX_BITSET_MATCH_ANY) != 0 &&
          errno == ETIMEDOUT) {
        return now() != seen;
      }
    }
    return true;
  }

 private:
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace sluice::base
