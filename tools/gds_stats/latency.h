// SPDX-License-Identifier: Apache-2.0
// Quantiles and coarser steps of the latencies that sluice_stats.h describes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sluice_stats.h"

namespace sluice::tools {

// The time that a part (0.99) of the counted transfers took at most, in nanoseconds: the end of its step, which is at
// most 10 % beyond. 0 when nothing was counted.
double quantile(std::span<const std::uint64_t> counts, double part);

// From the middle of each step, in nanoseconds.
double approximate_sum(std::span<const std::uint64_t> counts);

std::uint64_t count_of(std::span<const std::uint64_t> counts);

void add_counts(std::span<const std::uint64_t> from, std::vector<std::uint64_t>& to);

// "4-16KiB".
std::string_view class_name(std::size_t size_class);

}  // namespace sluice::tools
