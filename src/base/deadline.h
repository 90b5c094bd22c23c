// SPDX-License-Identifier: Apache-2.0
// From a time to wait to when it is over.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace sluice::base {

inline bool is_nothing(const timespec& timeout) noexcept {
  return timeout.tv_sec <= 0 && timeout.tv_nsec <= 0;
}

// By CLOCK_MONOTONIC, as EventCount takes it. What no clock counts is as long as a century.
inline timespec deadline_after(const timespec& timeout) noexcept {
  constexpr std::int64_t a_century = std::int64_t{100} * 366 * 86400;
  constexpr std::int64_t billion = 1'000'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t seconds = std::clamp<std::int64_t>(timeout.tv_sec, 0, a_century);
  const std::int64_t nanoseconds = now.tv_nsec + std::clamp<std::int64_t>(timeout.tv_nsec, 0, billion - 1);
  now.tv_sec += seconds + nanoseconds / billion;
  now.tv_nsec = nanoseconds % billion;
  return now;
}

}  // namespace sluice::base
