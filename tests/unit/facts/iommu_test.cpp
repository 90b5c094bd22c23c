// SPDX-License-Identifier: Apache-2.0
// The kinds of IOMMU domain below a disk, from a laid-out tree.
#include "facts/iommu.h"

#include <gtest/gtest.h>

#include "facts/tree.h"

namespace sluice::facts {
namespace {

using Kinds = std::vector<std::string>;

void add_drive(Tree& tree, const std::string& disk, const std::string& kind) {
  tree.file("/sys/block/" + disk + "/device/device/iommu_group/type", kind + "\n");
}

BlockFacts array_of(const std::vector<std::string>& members) {
  BlockFacts block;
  block.name = "md0";
  block.driver = "md";
  block.members = members;
  return block;
}

TEST(IommuDomains, OfADriveIsItsOwn) {
  Tree tree;
  add_drive(tree, "nvme0n1", "identity");
  BlockFacts block;
  block.name = "nvme0n1";
  EXPECT_EQ(iommu_domains(block, tree.root()), Kinds{"identity"});
}

TEST(IommuDomains, OfAnArrayAreThoseOfItsDrives) {
  Tree tree;
  add_drive(tree, "nvme0n1", "identity");
  add_drive(tree, "nvme1n1", "DMA-FQ");
  add_drive(tree, "nvme2n1", "identity");
  EXPECT_EQ(iommu_domains(array_of({"nvme0n1", "nvme2n1"}), tree.root()), Kinds{"identity"});
  EXPECT_EQ(iommu_domains(array_of({"nvme0n1", "nvme1n1", "nvme2n1"}), tree.root()), (Kinds{"DMA-FQ", "identity"}));
}

TEST(IommuDomains, OfADriveWithSeveralPathsAreThoseOfItsControllers) {
  Tree tree;
  for (const char* const controller : {"nvme3", "nvme4"}) {
    const std::string path = std::string("/sys/block/nvme3n1/device/") + controller;
    tree.file(path + "/transport", "pcie\n").file(path + "/nvme3c" + std::string(controller).substr(4) + "n1/stat", "");
  }
  tree.file("/sys/class/nvme/nvme3/device/iommu_group/type", "DMA\n");
  tree.file("/sys/class/nvme/nvme4/device/iommu_group/type", "identity\n");
  BlockFacts block;
  block.name = "nvme3n1";
  EXPECT_EQ(iommu_domains(block, tree.root()), (Kinds{"DMA", "identity"}));
}

TEST(IommuDomains, AreAllAlikeWhereSysfsDoesNotTell) {
  const Tree tree;
  EXPECT_EQ(iommu_domains(array_of({"sda", "sdb"}), tree.root()), Kinds{""});
}

}  // namespace
}  // namespace sluice::facts
