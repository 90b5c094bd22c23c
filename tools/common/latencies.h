// SPDX-License-Identifier: Apache-2.0
// How long operations took, kept so that percentiles of any number of them fit into a few pages: in classes whose
// bounds lie 3 % apart.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice::tools {

class Latencies {
 public:
  void add(std::chrono::nanoseconds time);
  void add(const Latencies& others);

  std::uint64_t count() const noexcept { return count_; }
  // In microseconds; 0 when there are none.
  double average() const;
  double smallest() const;
  double largest() const;
  // What `share` of all, 0.99 for 99 %, did not exceed.
  double percentile(double share) const;

 private:
  static constexpr std::size_t steps = 32;  // classes to a power of two
  static std::size_t class_of(std::uint64_t nanoseconds);
  static std::uint64_t upper_bound(std::size_t index);

  std::array<std::uint64_t, steps * 60> classes_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t smallest_ = UINT64_MAX;
  std::uint64_t largest_ = 0;
};

}  // namespace sluice::tools
