// Naps of a hand that is ahead of the device: its places are full, what it has not claimed nobody waits for, and the
// ring keeps the device busy for longer than a nap takes. So hands that a large request can do without for a moment
// cost no processor time then, and there may be as many as it needs in its slower moments.
#pragma once

#include <sys/prctl.h>
#include <time.h>

#include <chrono>
#include <cstdint>

#include "engine/rest.h"

namespace sluice::engine {

// Of one thread.
class Naps {
 public:
  // They take 25 to 40 us where timers are good. One that takes longer than this leaves the ring empty.
  static constexpr auto too_long = std::chrono::microseconds(150);
  // A thread may lose its processor once; one that wakes late twice in a row always does.
  static constexpr unsigned late_enough = 2;
  static constexpr std::uint32_t longest_rest = 256;

  // Asked once a request.
  bool are_allowed() noexcept { return rest_.is_over(); }

  // False: this thread wakes late, and stays awake for the rest of the request and for some more.
  bool take() noexcept {
    const auto began = std::chrono::steady_clock::now();
    sleep();
    return learn(std::chrono::steady_clock::now() - began);
  }

  bool learn(std::chrono::nanoseconds took) noexcept {
    if (took <= too_long) {
      late_in_a_row_ = 0;
      rest_.forget();
      return true;
    }
    if (++late_in_a_row_ < late_enough) return true;
    late_in_a_row_ = 0;
    rest_.begin(longest_rest);
    return false;
  }

 private:
  // The kernel rings 50 us late, if that saves it a timer, unless a thread says that it minds.
  static void sleep() noexcept {
    constexpr timespec some{0, 15'000};
    constexpr unsigned long hardly_late = 1'000;
    constexpr unsigned long as_before = 0;
    ::prctl(PR_SET_TIMERSLACK, hardly_late, 0UL, 0UL, 0UL);
    ::nanosleep(&some, nullptr);
    ::prctl(PR_SET_TIMERSLACK, as_before, 0UL, 0UL, 0UL);
  }

  Rest rest_;
  unsigned late_in_a_row_ = 0;
};

}  // namespace sluice::engine
