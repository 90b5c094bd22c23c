// SPDX-License-Identifier: Apache-2.0
// Tells the statistics which device an ordinal is: its UUID, and where it sits on the PCI bus.
#pragma once

#include <cstdint>
#include <string_view>

#include "observe/statistics.h"

namespace sluice::gpu {

void introduce_device(int ordinal) noexcept;

// The same the first time; then one load. For the I/O path, while the statistics run.
inline void introduce_if_new(int ordinal) noexcept {
  if (ordinal >= 0 && !observe::knows_device(ordinal)) introduce_device(ordinal);
}

// "0000:3B:00.0" as sluice_stats_region has it; SLUICE_STATS_PCI_KNOWN is missing from what is no such address.
std::uint64_t pci_number(std::string_view address) noexcept;

}  // namespace sluice::gpu
