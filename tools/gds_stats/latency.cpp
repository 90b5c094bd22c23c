// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/latency.h"

#include <algorithm>
#include <cmath>

#include "gds_stats/sample.h"

namespace sluice::tools {
namespace {

// The last step has no end.
double end_of(std::size_t place, std::size_t places) {
  const auto next = static_cast<unsigned>(std::min(place + 1, places - 1));
  return static_cast<double>(sluice_stats_latency_begin(next));
}

}  // namespace

std::uint64_t count_of(std::span<const std::uint64_t> counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) sum = plus(sum, count);
  return sum;
}

double quantile(std::span<const std::uint64_t> counts, double part) {
  const auto all = static_cast<double>(count_of(counts));
  if (all == 0) return 0;
  const double wanted = std::max(1.0, std::ceil(all * part));
  double seen = 0;
  for (std::size_t place = 0; place < counts.size(); ++place) {
    seen += static_cast<double>(counts[place]);
    if (seen >= wanted) return end_of(place, counts.size());
  }
  return end_of(counts.size(), counts.size());
}

double approximate_sum(std::span<const std::uint64_t> counts) {
  double sum = 0;
  for (std::size_t place = 0; place < counts.size(); ++place) {
    const auto begin = static_cast<double>(sluice_stats_latency_begin(static_cast<unsigned>(place)));
    sum += static_cast<double>(counts[place]) * (begin + end_of(place, counts.size())) / 2;
  }
  return sum;
}

void add_counts(std::span<const std::uint64_t> from, std::vector<std::uint64_t>& to) {
  if (to.size() < from.size()) to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = plus(to[i], from[i]);
}

std::string_view class_name(std::size_t size_class) {
  constexpr std::array<std::string_view, SLUICE_STATS_CLASS_COUNT> names = {
      "0-4KiB", "4-16KiB", "16-64KiB", "64-256KiB", "256KiB-1MiB", "1-4MiB", "4-16MiB", "16MiB-"};
  return names[size_class];
}

}  // namespace sluice::tools
