// SPDX-License-Identifier: Apache-2.0
// A PCI device names its group, the group the kind of its domain. An NVMe disk hangs on its controller, the head of
// several paths on a subsystem that holds the controllers.
#include "facts/iommu.h"

#include <algorithm>

#include "facts/nvme_paths.h"
#include "facts/read.h"

namespace sluice::facts {

namespace {

void add_domains(const std::string& disk, const Root& root, std::vector<std::string>& kinds) {
  const auto add = [&kinds](const std::string& device) {
    kinds.push_back(read_value(device + "/iommu_group/type").value_or(""));
  };
  const std::string parent = root.at("/sys/block/" + disk + "/device");
  if (exists(parent + "/device")) return add(parent + "/device");
  const std::vector<NvmePath> paths = nvme_paths(disk, root);
  for (const NvmePath& path : paths) add(root.at("/sys/class/nvme/" + path.controller + "/device"));
  if (paths.empty()) kinds.emplace_back();
}

}  // namespace

std::vector<std::string> iommu_domains(const BlockFacts& block, const Root& root) {
  std::vector<std::string> kinds;
  for (const std::string& disk : block.members) add_domains(disk, root, kinds);
  if (block.members.empty()) add_domains(block.name, root, kinds);
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

}  // namespace sluice::facts
