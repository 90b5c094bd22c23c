// SPDX-License-Identifier: Apache-2.0
// What the PCI link of a device carries, as this machine's sysfs tells.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::tools {

// Bytes a second in one direction: generation times width, less the line code. The generation is the highest that the
// device has, since an idle one slows down; the width is what is there. 0 where that is not known. `pci` as
// sluice_stats_region has it.
std::uint64_t link_bytes_per_second(std::uint64_t pci);

// The same of a speed as sysfs spells it, "32.0 GT/s PCIe", and a width of 16.
std::uint64_t link_bytes_per_second(const std::string& speed, unsigned width);

}  // namespace sluice::tools
