// SPDX-License-Identifier: Apache-2.0
// What carried bytes between host and device. Always counted: one addition a request.
#pragma once

#include <cstdint>

#include "sluice.h"
#include "sluice_stats.h"

namespace sluice::observe {

enum class CopyCounter : std::uint8_t {
  kernel = SLUICE_STATS_KERNEL,                     // requests whose bytes the gather kernel fetched
  kernel_revoked = SLUICE_STATS_KERNEL_CALLED_OFF,  // launches revoked because the device did not begin them soon
  copy_engine = SLUICE_STATS_COPY_ENGINE,           // requests through a staging buffer by the copy engine
  scatter_kernel = SLUICE_STATS_SCATTER_KERNEL,     // entries of batches whose bytes the scatter kernel fetched
  many_copies = SLUICE_STATS_MANY_COPIES,           // entries of batches that the copy engine took, many with one call
  bounce_buffer = SLUICE_STATS_SLAB,  // requests, or parts of them, through one bounce buffer, a copy after the other
  resident_kernel = SLUICE_STATS_RESIDENT_KERNEL,  // small reads that a kernel took that stays for the next one
  bar_mapping = SLUICE_STATS_CPU_WINDOW,           // small reads that the CPU stored into device memory
  coherent = SLUICE_STATS_COHERENT,  // requests, or parts of them, between a file and device memory in place
};

void count_copy(CopyCounter who, std::uint64_t times = 1) noexcept;
sluice_carrier_counts_t copy_counters() noexcept;

}  // namespace sluice::observe
