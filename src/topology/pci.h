// SPDX-License-Identifier: Apache-2.0
// The PCI devices that matter for storage and GPUs, as sysfs shows them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "facts/root.h"

namespace sluice::topology {

enum class DeviceClass : std::uint8_t { gpu, nvme, network };

struct PciDevice {
  std::string address;  // "0000:3b:00.0"
  DeviceClass kind = DeviceClass::gpu;
  std::uint32_t vendor = 0;
  std::uint32_t device = 0;
  int numa_node = -1;              // -1: the machine does not say
  std::vector<std::string> above;  // the bridges between it and its root complex, nearest first
};

// Sorted by address. Empty where there is no sysfs or no PCI bus.
std::vector<PciDevice> read_pci(const facts::Root& root);

// The size of one BAR; 0 where it cannot be read. `address` in either case of letters.
std::uint64_t bar_bytes(const facts::Root& root, std::string address, int bar);

}  // namespace sluice::topology
