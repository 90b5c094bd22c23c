// SPDX-License-Identifier: Apache-2.0
// How the IOMMU treats the drives below a disk.
#pragma once

#include <string>
#include <vector>

#include "facts/file.h"
#include "facts/root.h"

namespace sluice::facts {

// The kinds of domain that the disk's drives, and the paths that lead to each, are in: "identity", "DMA", "DMA-FQ"; ""
// for a drive without one, or of which sysfs does not tell. Each kind once, sorted.
std::vector<std::string> iommu_domains(const BlockFacts& block, const Root& root);

}  // namespace sluice::facts
