// SPDX-License-Identifier: Apache-2.0
// How a drive is told to be reached: one controller, or a subsystem with several.
#include "facts/nvme_paths.h"

#include <gtest/gtest.h>

#include "facts/tree.h"

namespace sluice::facts {
namespace {

void add_controller(Tree& tree, const std::string& folder, const std::string& transport, const std::string& address,
                    const std::string& state) {
  tree.file(folder + "/transport", transport + "\n")
      .file(folder + "/address", address + "\n")
      .file(folder + "/state", state + "\n");
}

// The head nvme1n1 of a subsystem that nvme1, nvme2 and nvme7 lead to; nvme7 leads to another drive in it.
Tree& fabrics(Tree& tree) {
  const std::string subsystem = "/sys/block/nvme1n1/device";
  add_controller(tree, subsystem + "/nvme1", "tcp", "traddr=127.0.0.1,trsvcid=4420,src_addr=127.0.0.1", "live");
  add_controller(tree, subsystem + "/nvme2", "rdma", "traddr=192.168.77.1,trsvcid=4421", "connecting");
  add_controller(tree, subsystem + "/nvme7", "tcp", "traddr=127.0.0.1,trsvcid=4427", "live");
  tree.file(subsystem + "/nvme1/nvme1c1n1/ana_state", "optimized\n");
  tree.file(subsystem + "/nvme2/nvme1c2n1/ana_state", "inaccessible\n");
  return tree.file(subsystem + "/subsysnqn", "nqn\n");
}

TEST(NvmePaths, AreThoseOfTheControllersThatLeadToTheDrive) {
  Tree tree;
  const std::vector<NvmePath> paths = nvme_paths("nvme1n1", fabrics(tree).root());
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].controller, "nvme1");
  EXPECT_EQ(paths[0].transport, "tcp");
  EXPECT_EQ(paths[0].address, "127.0.0.1:4420");
  EXPECT_EQ(paths[0].state, "live");
  EXPECT_EQ(paths[0].ana_state, "optimized");
  EXPECT_EQ(paths[1].controller, "nvme2");
  EXPECT_EQ(paths[1].ana_state, "inaccessible");
}

TEST(NvmePaths, AreToldInOneLine) {
  Tree tree;
  EXPECT_EQ(describe_nvme_paths("nvme1n1", fabrics(tree).root()),
            "path nvme1 tcp 127.0.0.1:4420 live optimized, path nvme2 rdma 192.168.77.1:4421 connecting inaccessible");
}

TEST(NvmePaths, OfADriveWithOneControllerIsThatOne) {
  Tree tree;
  add_controller(tree, "/sys/devices/pci/nvme0", "pcie", "0000:03:00.0", "live");
  tree.link("/sys/block/nvme0n1/device", "../../devices/pci/nvme0");
  const std::vector<NvmePath> paths = nvme_paths("nvme0n1", tree.root());
  ASSERT_EQ(paths.size(), 1U);
  EXPECT_EQ(paths[0].controller, "nvme0");
  EXPECT_EQ(paths[0].address, "0000:03:00.0");
  EXPECT_EQ(describe_nvme_paths("nvme0n1", tree.root()), "") << "there is nothing to say of a single PCIe path";
}

TEST(NvmePaths, AreNoneWhereSysfsDoesNotTell) {
  const Tree tree;
  EXPECT_TRUE(nvme_paths("nvme0n1", tree.root()).empty());
  EXPECT_EQ(describe_nvme_paths("nvme0n1", tree.root()), "");
}

}  // namespace
}  // namespace sluice::facts
