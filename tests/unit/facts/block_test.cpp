// SPDX-License-Identifier: Apache-2.0
// Disks, partitions, mappings, arrays and drives over networks, as sysfs lays them out.
#include "facts/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <string>

#include "facts/tree.h"

namespace sluice::facts {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* pcie_controller = "devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0";

Tree& add_nvme(Tree& tree) {
  tree.file(std::string("/sys/") + pcie_controller + "/transport", "pcie\n");
  const std::string disk = std::string(pcie_controller) + "/nvme0n1";
  tree.disk(disk, "259:0", 4096).link("/sys/" + disk + "/device", "../../nvme0");
  tree.partition(disk, "nvme0n1p1", "259:1").partition(disk, "nvme0n1p2", "259:2");
  return tree;
}

TEST(BlockWithNumber, DescribesANvmeDrive) {
  Tree tree;
  add_nvme(tree);
  const BlockFacts block = block_with_number(makedev(259, 0), tree.root());
  EXPECT_EQ(block.name, "nvme0n1");
  EXPECT_EQ(block.driver, "nvme");
  EXPECT_EQ(block.transport, "pcie");
  EXPECT_EQ(block.logical_block, 4096u);
  EXPECT_THAT(block.members, IsEmpty());
}

TEST(BlockWithNumber, GivesThePartitionsDisk) {
  Tree tree;
  add_nvme(tree);
  const BlockFacts block = block_with_number(makedev(259, 2), tree.root());
  EXPECT_EQ(block.name, "nvme0n1");
  EXPECT_EQ(block.driver, "nvme");
  EXPECT_EQ(block.transport, "pcie");
  EXPECT_EQ(block.logical_block, 4096u);
}

TEST(BlockWithNumber, TakesTheDriverOfARealDeviceFromItsLink) {
  Tree tree;
  tree.disk("devices/pci0000:00/0000:00:02.0/virtio1/block/vda", "254:0")
      .link("/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/device", "../../../virtio1")
      .link("/sys/devices/pci0000:00/0000:00:02.0/virtio1/driver", "../../../../bus/virtio/drivers/virtio_blk")
      .partition("devices/pci0000:00/0000:00:02.0/virtio1/block/vda", "vda1", "254:1");
  tree.disk("devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda", "8:0")
      .link("/sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda/device", "../../../0:0:0:0")
      .link("/sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/driver", "../../../../../../bus/scsi/drivers/sd");
  EXPECT_EQ(block_with_number(makedev(254, 1), tree.root()).driver, "virtio_blk");
  EXPECT_EQ(block_with_number(makedev(254, 1), tree.root()).name, "vda");
  EXPECT_EQ(block_with_number(makedev(8, 0), tree.root()).driver, "sd");
  EXPECT_EQ(block_with_number(makedev(8, 0), tree.root()).transport, "");
}

TEST(BlockWithNumber, KnowsVirtualDevicesByTheirNames) {
  struct Case {
    const char* name;
    const char* driver;
  };
  int minor_number = 0;
  Tree tree;
  for (const Case& known :
       {Case{"loop3", "loop"}, Case{"zram0", "zram"}, Case{"ram1", "brd"}, Case{"nbd0", "nbd"}, Case{"rbd0", "rbd"},
        Case{"nullb0", "null_blk"}, Case{"ublkb2", "ublk"}, Case{"dm-12", "device-mapper"}, Case{"md127", "md"},
        Case{"mystery0", ""}, Case{"loop", ""}, Case{"dm-x", ""}}) {
    const std::string device = std::string("devices/virtual/block/") + known.name;
    tree.disk(device, "240:" + std::to_string(minor_number));
    const BlockFacts block = block_with_number(makedev(240, static_cast<unsigned>(minor_number)), tree.root());
    EXPECT_EQ(block.name, known.name);
    EXPECT_EQ(block.driver, known.driver) << known.name;
    ++minor_number;
  }
}

TEST(BlockWithNumber, FindsTheDrivesBelowAMappingOnAnArray) {
  Tree tree;
  add_nvme(tree);
  tree.file("/sys/devices/pci0000:00/0000:02:00.0/nvme/nvme1/transport", "pcie\n")
      .disk("devices/pci0000:00/0000:02:00.0/nvme/nvme1/nvme1n1", "259:5");
  tree.disk("devices/virtual/block/md0", "9:0").folder("/sys/devices/virtual/block/md0/md");
  // The array takes a partition of one drive and the whole of the other.
  tree.link("/sys/devices/virtual/block/md0/slaves/nvme0n1p2", "../../../../" + std::string(pcie_controller).substr(8));
  tree.link("/sys/devices/virtual/block/md0/slaves/nvme1n1", "../../../../pci0000:00/x");
  tree.disk("devices/virtual/block/dm-0", "253:0").file("/sys/devices/virtual/block/dm-0/dm/name", "data\n");
  tree.link("/sys/devices/virtual/block/dm-0/slaves/md0", "../../md0");

  const BlockFacts mapping = block_with_number(makedev(253, 0), tree.root());
  EXPECT_EQ(mapping.name, "dm-0");
  EXPECT_EQ(mapping.driver, "device-mapper");
  EXPECT_EQ(mapping.transport, "");
  EXPECT_THAT(mapping.members, ElementsAre("nvme0n1", "nvme1n1"));

  const BlockFacts array = block_with_number(makedev(9, 0), tree.root());
  EXPECT_EQ(array.driver, "md");
  EXPECT_THAT(array.members, ElementsAre("nvme0n1", "nvme1n1"));
}

TEST(BlockWithNumber, NamesAMemberThatSysfsDoesNotListOtherwise) {
  Tree tree;
  tree.disk("devices/virtual/block/dm-0", "253:0").link("/sys/devices/virtual/block/dm-0/slaves/sdz", "nowhere");
  EXPECT_THAT(block_with_number(makedev(253, 0), tree.root()).members, ElementsAre("sdz"));
}

TEST(BlockWithNumber, EndsOnStacksThatAreDeepWideOrCircular) {
  Tree tree;
  tree.disk("devices/virtual/block/dm-0", "253:0").link("/sys/devices/virtual/block/dm-0/slaves/dm-1", "x");
  tree.disk("devices/virtual/block/dm-1", "253:1").link("/sys/devices/virtual/block/dm-1/slaves/dm-0", "x");
  EXPECT_THAT(block_with_number(makedev(253, 0), tree.root()).members, IsEmpty());

  tree.disk("devices/virtual/block/md1", "9:1");
  for (int member = 0; member < 200; ++member) {
    tree.link("/sys/devices/virtual/block/md1/slaves/sd" + std::to_string(member), "x");
  }
  EXPECT_THAT(block_with_number(makedev(9, 1), tree.root()).members, SizeIs(64));
}

TEST(BlockWithNumber, KnowsHowADriveOverANetworkIsReached) {
  for (const char* transport : {"tcp", "rdma", "fc", "loop"}) {
    Tree tree;
    tree.file("/sys/devices/virtual/nvme-fabrics/ctl/nvme2/transport", std::string(transport) + "\n")
        .disk("devices/virtual/nvme-fabrics/ctl/nvme2/nvme2n1", "259:0")
        .link("/sys/devices/virtual/nvme-fabrics/ctl/nvme2/nvme2n1/device", "../../nvme2");
    const BlockFacts block = block_with_number(makedev(259, 0), tree.root());
    EXPECT_EQ(block.driver, "nvme");
    EXPECT_EQ(block.transport, transport);
    EXPECT_EQ(block.over_tcp, transport == std::string("tcp"));
  }
}

TEST(BlockWithNumber, TellsThatAMemberOfAnArrayIsReachedByTcp) {
  Tree tree;
  add_nvme(tree);
  tree.file("/sys/devices/virtual/nvme-fabrics/ctl/nvme2/transport", "tcp\n")
      .disk("devices/virtual/nvme-fabrics/ctl/nvme2/nvme2n1", "259:6")
      .link("/sys/devices/virtual/nvme-fabrics/ctl/nvme2/nvme2n1/device", "../../nvme2");
  tree.disk("devices/virtual/block/md0", "9:0").folder("/sys/devices/virtual/block/md0/md");
  tree.link("/sys/devices/virtual/block/md0/slaves/nvme0n1p2", "x");
  EXPECT_FALSE(block_with_number(makedev(9, 0), tree.root()).over_tcp);
  tree.link("/sys/devices/virtual/block/md0/slaves/nvme2n1", "x");
  EXPECT_TRUE(block_with_number(makedev(9, 0), tree.root()).over_tcp);
}

// A head hangs on its subsystem; its paths are hidden disks below the controllers.
class MultipathHead : public testing::Test {
 protected:
  static constexpr const char* subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys3";

  MultipathHead() {
    tree_.disk("devices/virtual/nvme-subsystem/nvme-subsys3/nvme3n1", "259:0")
        .link(std::string(subsystem) + "/nvme3n1/device", "../../nvme-subsys3");
  }

  void add_controller(const std::string& name, const std::string& transport, const std::string& hidden_path) {
    const std::string place = "/sys/devices/controllers/" + name;
    tree_.file(place + "/transport", transport + "\n");
    if (!hidden_path.empty()) tree_.folder(place + "/" + hidden_path);
    tree_.link(std::string(subsystem) + "/" + name, "../../../controllers/" + name);
  }

  std::string transport() const { return block_with_number(makedev(259, 0), tree_.root()).transport; }

  Tree tree_;
};

TEST_F(MultipathHead, IsReachedTheWayItsControllersAre) {
  add_controller("nvme3", "tcp", "nvme3c3n1");
  add_controller("nvme4", "tcp", "nvme3c4n1");
  EXPECT_EQ(transport(), "tcp");
  EXPECT_EQ(block_with_number(makedev(259, 0), tree_.root()).driver, "nvme");
}

TEST_F(MultipathHead, NamesEachWayWhenItsPathsDiffer) {
  add_controller("nvme3", "tcp", "nvme3c3n1");
  add_controller("nvme4", "rdma", "nvme3c4n1");
  add_controller("nvme5", "tcp", "nvme3c5n1");
  EXPECT_EQ(transport(), "rdma+tcp");
  EXPECT_TRUE(block_with_number(makedev(259, 0), tree_.root()).over_tcp);
}

TEST_F(MultipathHead, LeavesOutControllersThatDoNotLeadToIt) {
  add_controller("nvme3", "pcie", "nvme3c3n1");
  add_controller("nvme4", "tcp", "nvme3c4n2");
  EXPECT_EQ(transport(), "pcie");
}

TEST_F(MultipathHead, TakesAllControllersWhereNoPathIsShown) {
  add_controller("nvme3", "pcie", "");
  EXPECT_EQ(transport(), "pcie");
}

TEST(BlockWithNumber, IsEmptyWhereSysfsDoesNotTell) {
  const Tree tree;
  const BlockFacts block = block_with_number(makedev(259, 0), tree.root());
  EXPECT_EQ(block.name, "");
  EXPECT_EQ(block.driver, "");
  EXPECT_EQ(block.logical_block, 0u);
}

TEST(BlockWithNumber, LeavesUnknownWhatIsUnreadable) {
  Tree tree;
  tree.disk("devices/virtual/block/loop0", "7:0")
      .file("/sys/devices/virtual/block/loop0/queue/logical_block_size", "?");
  EXPECT_EQ(block_with_number(makedev(7, 0), tree.root()).logical_block, 0u);
  EXPECT_EQ(block_with_number(makedev(7, 0), tree.root()).driver, "loop");
}

TEST(BlockOfSource, FollowsTheNameUnderDev) {
  Tree tree;
  add_nvme(tree);
  EXPECT_EQ(block_of_source("/dev/nvme0n1p1", tree.root()).name, "nvme0n1");
}

TEST(BlockOfSource, FollowsTheLinkOfAMapping) {
  Tree tree;
  tree.disk("devices/virtual/block/dm-3", "253:3").link("/dev/mapper/vg-data", "../dm-3");
  EXPECT_EQ(block_of_source("/dev/mapper/vg-data", tree.root()).name, "dm-3");
}

TEST(BlockOfSource, KnowsHowSysfsSpellsASlash) {
  Tree tree;
  tree.disk("devices/pci/block/cciss!c0d0", "104:0");
  EXPECT_EQ(block_of_source("/dev/cciss/c0d0", tree.root()).name, "cciss!c0d0");
}

TEST(BlockOfSource, IsEmptyForWhatIsNoDevice) {
  Tree tree;
  add_nvme(tree);
  for (const char* source : {"", "overlay", "server:/export", "/dev/", "/dev/root", "nvme0n1", "/mnt/nvme0n1"}) {
    EXPECT_EQ(block_of_source(source, tree.root()).name, "") << source;
  }
}

}  // namespace
}  // namespace sluice::facts
