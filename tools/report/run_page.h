// SPDX-License-Identifier: Apache-2.0
// The report of a run: how much, how fast, which way, and where the time of its slow moments went.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/recording.h"
#include "trace/slices.h"

namespace sluice::tools {

std::string run_page(const Recording& recording, const std::string& what);

// A stretch of the run in which transfers were under way and much less was moved than otherwise.
struct SlowStretch {
  std::uint64_t begin = 0;  // nanoseconds of CLOCK_MONOTONIC
  std::uint64_t end = 0;
  double rate = 0;   // bytes a second in it
  double usual = 0;  // the median of the moments in which transfers were under way
};

// What was moved in each of so many equal parts of the run, with each request's bytes spread over its time.
struct Pace {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<double> bytes;         // of each part
  std::vector<double> under_way_ns;  // of requests, of each part
  std::vector<bool> slow;

  double seconds_a_part() const noexcept {
    return bytes.empty() ? 0 : static_cast<double>(end - begin) / 1e9 / static_cast<double>(bytes.size());
  }
};
Pace pace_of(const std::vector<RequestSpan>& requests, std::size_t parts);
// The longest one.
SlowStretch slow_stretch_of(const Pace& pace);

// "14:03:07.250", as the wall's clock here has it.
std::string clock_text(const Recording& recording, std::uint64_t monotonic);

}  // namespace sluice::tools
