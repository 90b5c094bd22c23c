// SPDX-License-Identifier: Apache-2.0
// Where a time and a size stand in the latencies of sluice_stats.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "sluice_stats.h"

namespace sluice::observe {

// The inverse of sluice_stats_latency_begin().
constexpr std::size_t latency_place(std::uint64_t nanoseconds) noexcept {
  constexpr unsigned octaves = (SLUICE_STATS_LATENCY_COUNT - 2) / SLUICE_STATS_LATENCY_STEPS;
  if (nanoseconds >> SLUICE_STATS_LATENCY_FIRST == 0) return 0;
  const auto octave = static_cast<unsigned>(std::bit_width(nanoseconds)) - 1;
  if (octave >= SLUICE_STATS_LATENCY_FIRST + octaves) return SLUICE_STATS_LATENCY_COUNT - 1;
  const std::uint64_t beyond = nanoseconds - (std::uint64_t{1} << octave);
  return 1 + std::size_t{octave - SLUICE_STATS_LATENCY_FIRST} * SLUICE_STATS_LATENCY_STEPS +
         ((beyond * SLUICE_STATS_LATENCY_STEPS) >> octave);
}

// Of a bucket of size_bucket(): two of those to a class.
constexpr std::size_t class_of(std::size_t bucket) noexcept {
  return std::min<std::size_t>((bucket + 1) / 2, SLUICE_STATS_CLASS_COUNT - 1);
}

}  // namespace sluice::observe
