// SPDX-License-Identifier: Apache-2.0
// Speeds that are measured for a while, within a time that all measurements have together.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace sluice::tools {

// What is left of the time for all.
class Budget {
 public:
  explicit Budget(double seconds)
      : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  bool is_spent() const { return Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

// Moves the next bytes and tells how many; 0: it failed.
using Step = std::function<std::uint64_t()>;

// GiB/s of steps that are made for so long, and at least twice. First `round` bytes are moved that do not count: what
// happens once is over then. Nothing where a step failed, or the budget was spent before two counted.
std::optional<double> speed_of(const Step& step, std::uint64_t round, double seconds, const Budget& budget);

// To four digits.
double rounded(double value);

}  // namespace sluice::tools
