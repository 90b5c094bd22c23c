// SPDX-License-Identifier: Apache-2.0
#include "common/latencies.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sluice::tools {
namespace {

constexpr double nanoseconds_in_microsecond = 1000;

}  // namespace

// Below 32 ns each has a class of its own; above, the five bits behind the leading one choose it.
std::size_t Latencies::class_of(std::uint64_t nanoseconds) {
  if (nanoseconds < steps) return nanoseconds;
  const auto power = static_cast<std::size_t>(std::bit_width(nanoseconds)) - 6;
  return (power + 1) * steps + ((nanoseconds >> power) - steps);
}

std::uint64_t Latencies::upper_bound(std::size_t index) {
  if (index < steps) return index;
  const std::size_t power = index / steps - 1;
  return ((index % steps + steps + 1) << power) - 1;
}

void Latencies::add(std::chrono::nanoseconds time) {
  const auto nanoseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  ++classes_[std::min(class_of(nanoseconds), classes_.size() - 1)];
  ++count_;
  sum_ += nanoseconds;
  smallest_ = std::min(smallest_, nanoseconds);
  largest_ = std::max(largest_, nanoseconds);
}

void Latencies::add(const Latencies& others) {
  for (std::size_t i = 0; i < classes_.size(); ++i) classes_[i] += others.classes_[i];
  count_ += others.count_;
  sum_ += others.sum_;
  smallest_ = std::min(smallest_, others.smallest_);
  largest_ = std::max(largest_, others.largest_);
}

double Latencies::average() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_) / nanoseconds_in_microsecond;
}
double Latencies::smallest() const {
  return count_ == 0 ? 0 : static_cast<double>(smallest_) / nanoseconds_in_microsecond;
}
double Latencies::largest() const {
  return static_cast<double>(largest_) / nanoseconds_in_microsecond;
}

double Latencies::percentile(double share) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    seen += classes_[i];
    if (seen < wanted || classes_[i] == 0) continue;
    const std::uint64_t bound = std::clamp(upper_bound(i), smallest_, largest_);
    return static_cast<double>(bound) / nanoseconds_in_microsecond;
  }
  return largest();
}

}  // namespace sluice::tools
