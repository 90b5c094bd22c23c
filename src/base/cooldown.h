// SPDX-License-Identifier: Apache-2.0
// For how many requests, or for how long, something is left alone after it did not go well: the longer, the more often
// that happens in a row.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sluice::base {

class Cooldown {
 public:
  static constexpr std::uint32_t shortest = 8;

  void begin(std::uint32_t longest) noexcept {
    last_ = std::clamp(last_ * 2, shortest, longest);
    left_ = last_;
  }
  // Asked once a request, which counts for as many as it is worth.
  bool is_over(std::uint32_t worth = 1) noexcept {
    if (left_ == 0) return true;
    left_ -= std::min(left_, worth);
    return false;
  }
  // It went well: the next rest is a short one.
  void forget() noexcept { last_ = 0; }

 private:
  std::uint32_t left_ = 0;
  std::uint32_t last_ = 0;
};

class TimedCooldown {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds shortest{4};
  static constexpr std::chrono::milliseconds longest{256};

  void begin(Clock::time_point now) noexcept {
    last_ = std::clamp(last_ * 2, shortest, longest);
    until_ = now + last_;
  }
  // There was one since the last time that it went well, and it may last.
  bool was_needed() const noexcept { return last_.count() > 0; }
  bool is_over(Clock::time_point now) const noexcept { return now >= until_; }
  void forget() noexcept { *this = {}; }

 private:
  std::chrono::milliseconds last_{0};
  Clock::time_point until_{};
};

}  // namespace sluice::base
