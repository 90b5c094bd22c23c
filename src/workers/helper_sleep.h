// SPDX-License-Identifier: Apache-2.0
// The sleep of a helper that is ahead of the device: its slots are full, no thread waits for what it has not claimed,
// and the staging buffer keeps the device busy for longer than the sleep takes. So helpers that a large request can
// spare for a moment cost no processor time then, and there may be as many as it needs in its slower moments.
#pragma once

#include <sys/prctl.h>
#include <time.h>

#include <chrono>
#include <cstdint>

#include "base/cooldown.h"

namespace sluice::workers {

// Of one thread.
class HelperSleep {
 public:
  // They take 25 to 40 us where timers are good. What lies in the staging buffer lasts for some 70, and other helpers
  // go on.
  static constexpr auto too_long = std::chrono::microseconds(150);
  // A thread may lose its processor once; one that wakes late twice in a row always does.
  static constexpr unsigned late_enough = 2;
  static constexpr std::uint32_t longest_cooldown = 256;

  // Asked once a request.
  bool is_allowed() noexcept { return cooldown_.is_over(); }

  // False: this thread wakes late, and stays awake for the rest of the request and for some more.
  bool take() noexcept {
    const auto began = std::chrono::steady_clock::now();
    sleep();
    return learn(std::chrono::steady_clock::now() - began);
  }

  bool learn(std::chrono::nanoseconds took) noexcept {
    if (took <= too_long) {
      late_in_a_row_ = 0;
      cooldown_.forget();
      return true;
    }
    if (++late_in_a_row_ < late_enough) return true;
    late_in_a_row_ = 0;
    cooldown_.begin(longest_cooldown);
    return false;
  }

 private:
  // Timers fire up to 50 us late unless timer slack is lowered. For threads of ours: 0 is what they began with.
  static void sleep() noexcept {
    constexpr timespec some{0, 15'000};
    constexpr unsigned long hardly_late = 1'000;
    constexpr unsigned long as_at_first = 0;
    ::prctl(PR_SET_TIMERSLACK, hardly_late, 0UL, 0UL, 0UL);
    ::nanosleep(&some, nullptr);
    ::prctl(PR_SET_TIMERSLACK, as_at_first, 0UL, 0UL, 0UL);
  }

  base::Cooldown cooldown_;
  unsigned late_in_a_row_ = 0;
};

}  // namespace sluice::workers
