// SPDX-License-Identifier: Apache-2.0
// How near a drive is to a GPU, by where both hang in the PCI tree.
#pragma once

#include <string>
#include <vector>

#include "core/parameters.h"
#include "facts/root.h"

namespace sluice::csi {

struct PciPlace {
  std::string root;    // "pci0000:10"
  std::string node;    // of memory; "-1" where the machine has one
  std::string folder;  // of the nearest PCI function that tells its link; "" where none does
};
// Of a device, by its link in sysfs.
PciPlace pci_place_at(const std::string& link);
// A disk's own link, or those of an array's members.
std::vector<std::string> links_of(const std::string& disk, const facts::Root& root);

// Of a disk, or of an array's members the farthest: root when they hang below one PCIe root with some GPU, numa when
// they are at one node with some GPU, else any. Nothing is near where there is no GPU.
GpuAffinity affinity_of(const std::string& disk, const facts::Root& root);

}  // namespace sluice::csi
