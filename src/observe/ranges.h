// SPDX-License-Identifier: Apache-2.0
// Ranges for profilers that speak NVTX (Nsight Systems, compute-sanitizer, ncu): a transfer shows as a bar on the
// thread that does it. A profiler names its library in NVTX_INJECTION64_PATH; without that variable, or where
// profile.nvtx is off, nothing of this is ever touched.
#pragma once

#include <cstdint>

#include "base/strong.h"

namespace sluice::observe {

// Requests below this have no range: there are too many of them, and a range costs about what they take.
inline constexpr std::uint64_t smallest_with_range = std::uint64_t{64} << 10U;

enum class RangeOf : std::uint8_t { read, write, batch, stream };

// For the control plane: once a process loads the profiler's library, where it is named and `wanted`. Programs with
// privileges of their own load none.
void start_ranges(bool wanted);

// On this thread, nested; while Watchers::ranges is set. The bar is called by the direction, and coloured by its
// category.
void push_range(RangeOf category, base::Direction direction, std::uint64_t bytes) noexcept;
void pop_range() noexcept;

}  // namespace sluice::observe
