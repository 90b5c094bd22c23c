// SPDX-License-Identifier: Apache-2.0
// How near a drive is to a GPU, by where both hang in the PCI tree.
#pragma once

#include <string>

#include "core/parameters.h"
#include "facts/root.h"

namespace sluice::csi {

// Of a disk, or of an array's members the farthest: root when they hang below one PCIe root with some GPU, numa when
// they are at one node with some GPU, else any. Nothing is near where there is no GPU.
GpuAffinity affinity_of(const std::string& disk, const facts::Root& root);

}  // namespace sluice::csi
