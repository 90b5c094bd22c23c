// SPDX-License-Identifier: Apache-2.0
// PCI devices read from a tree that the test lays out.
#include "topology/pci.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace sluice::topology {
namespace {

namespace fs = std::filesystem;

class PciTree : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "sluice-pci-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    fs::create_directories(root_ / "sys/bus/pci/devices");
  }
  void TearDown() override { fs::remove_all(root_); }

  void add(const std::string& nested, const std::string& code) {
    const fs::path real = root_ / "sys/devices/pci0000:00" / nested;
    fs::create_directories(real);
    std::ofstream(real / "class") << code << "\n";
    std::ofstream(real / "vendor") << "0x10de\n";
    std::ofstream(real / "device") << "0x2335\n";
    std::ofstream(real / "numa_node") << "1\n";
    std::ofstream(real / "resource") << "0x0000000000001000 0x0000000000001fff 0x0\n"
                                     << "0x0000380000000000 0x0000383fffffffff 0x14220c\n";
    fs::create_directory_symlink(real, root_ / "sys/bus/pci/devices" / real.filename());
  }

  fs::path root_;
};

TEST_F(PciTree, ShowsDevicesThatMatterWithTheBridgesAboveThem) {
  add("0000:00:01.0/0000:01:00.0/0000:02:00.0", "0x030200");
  add("0000:00:01.0/0000:01:00.0/0000:03:00.0", "0x010802");
  add("0000:00:1f.0", "0x060100");
  const auto devices = read_pci(facts::Root(root_.string()));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].address, "0000:02:00.0");
  EXPECT_EQ(devices[0].kind, DeviceClass::gpu);
  EXPECT_EQ(devices[0].vendor, 0x10deu);
  EXPECT_EQ(devices[0].numa_node, 1);
  EXPECT_EQ(devices[0].above, (std::vector<std::string>{"0000:01:00.0", "0000:00:01.0"}));
  EXPECT_EQ(devices[1].kind, DeviceClass::nvme);
}

TEST_F(PciTree, TellsTheSizeOfABar) {
  add("0000:00:01.0/0000:AB:00.0", "0x030200");
  fs::create_directory_symlink(root_ / "sys/devices/pci0000:00/0000:00:01.0/0000:AB:00.0",
                               root_ / "sys/bus/pci/devices/0000:ab:00.0");
  const facts::Root root(root_.string());
  EXPECT_EQ(bar_bytes(root, "0000:AB:00.0", 1), std::uint64_t{1} << 38);
  EXPECT_EQ(bar_bytes(root, "0000:AB:00.0", 0), 0x1000u);
  EXPECT_EQ(bar_bytes(root, "0000:AB:00.0", 5), 0u);
  EXPECT_EQ(bar_bytes(root, "0000:ff:00.0", 1), 0u);
}

// As GPUs since Hopper show theirs: all have 64 bits, two lines each.
TEST_F(PciTree, TellsTheSizeOfABarBehindWideOnes) {
  add("0000:00:01.0/0000:cb:00.0", "0x030200");
  std::ofstream(root_ / "sys/devices/pci0000:00/0000:00:01.0/0000:cb:00.0/resource")
      << "0x00002e8044000000 0x00002e8044ffffff 0x000000000014220c\n"
      << "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
      << "0x00002c0000000000 0x00002c3fffffffff 0x000000000014220c\n"
      << "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
      << "0x00002e8040000000 0x00002e8041ffffff 0x000000000014220c\n"
      << "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
  const facts::Root root(root_.string());
  EXPECT_EQ(bar_bytes(root, "0000:cb:00.0", 0), std::uint64_t{16} << 20);
  EXPECT_EQ(bar_bytes(root, "0000:cb:00.0", 1), std::uint64_t{256} << 30);
  EXPECT_EQ(bar_bytes(root, "0000:cb:00.0", 2), std::uint64_t{32} << 20);
  EXPECT_EQ(bar_bytes(root, "0000:cb:00.0", 3), 0u);
}

// A resizable BAR that the firmware found no room for.
TEST_F(PciTree, KnowsNoSizeOfABarWithoutAnAddress) {
  add("0000:00:01.0/0000:cb:00.0", "0x030200");
  std::ofstream(root_ / "sys/devices/pci0000:00/0000:00:01.0/0000:cb:00.0/resource")
      << "0x0000000082000000 0x0000000082ffffff 0x0000000000040200\n"
      << "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
      << "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
      << "0x0000000080000000 0x0000000081ffffff 0x000000000014220c\n"
      << "no line\n";
  EXPECT_EQ(bar_bytes(facts::Root(root_.string()), "0000:cb:00.0", 1), 0u);
}

TEST(Pci, AMachineWithoutABusHasNoDevices) {
  EXPECT_TRUE(read_pci(facts::Root("/no/such/tree")).empty());
}

}  // namespace
}  // namespace sluice::topology
