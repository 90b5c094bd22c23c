// SPDX-License-Identifier: Apache-2.0
// Words of the statistics, as those touch them that count and those that add up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "observe/statistics_region.h"

namespace sluice::observe {

inline void add(std::uint64_t& counter, std::uint64_t amount) noexcept {
  word(counter).fetch_add(amount, std::memory_order_relaxed);
}

inline std::uint64_t value(std::uint64_t& counter) noexcept {
  return word(counter).load(std::memory_order_relaxed);
}

inline void set(std::uint64_t& counter, std::uint64_t amount) noexcept {
  word(counter).store(amount, std::memory_order_relaxed);
}

// Of CLOCK_MONOTONIC, as the head has it.
inline std::uint64_t nanoseconds_now() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// By itself, too; what lies behind counts in the totals alone.
inline bool is_counted(int device) noexcept {
  return device >= 0 && device < SLUICE_STATS_DEVICE_COUNT;
}

// All of a shard, or of a part of the region, is words.
template <typename Part>
std::span<std::uint64_t> words_of(Part& part) noexcept {
  static_assert(sizeof part % sizeof(std::uint64_t) == 0);
  return {reinterpret_cast<std::uint64_t*>(&part), sizeof part / sizeof(std::uint64_t)};
}

}  // namespace sluice::observe
