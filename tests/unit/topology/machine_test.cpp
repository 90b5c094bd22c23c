// SPDX-License-Identifier: Apache-2.0
// The tree from sysfs, what is told beside it, and the file that it is written to.
#include "topology/machine.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/failure.h"
#include "topology/export.h"
#include "topology/told.h"

namespace sluice::topology {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class MachineTree : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "sluice-machine-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void device(const std::string& nested, const std::string& code, const std::string& vendor) {
    const std::string home = "sys/devices/pci0000:00/" + nested;
    for (const auto& [name, text] :
         {std::pair{"class", code}, std::pair{"vendor", vendor}, std::pair{"device", std::string("0x1021")},
          std::pair{"numa_node", std::string("0")}, std::pair{"current_link_speed", std::string("16.0 GT/s PCIe")},
          std::pair{"max_link_speed", std::string("32.0 GT/s PCIe")},
          std::pair{"current_link_width", std::string("255")}}) {
      put(home + "/" + name, text);
    }
    link("sys/bus/pci/devices/" + fs::path(nested).filename().string(), home);
  }
  void link(const std::string& from, const std::string& to) {
    fs::create_directories((root_ / from).parent_path());
    fs::create_directory_symlink(root_ / to, root_ / from);
  }
  Machine read(Told told = {}) { return read_machine(facts::Root(root_.string()), std::move(told)); }

  fs::path root_;
};

TEST_F(MachineTree, FindsCardsByTheirRdmaDevicesInterfacesAndAddresses) {
  device("0000:00:01.0", "0x060400", "0x8086");
  device("0000:00:01.0/0000:01:00.0", "0x020700", "0x15b3");
  device("0000:00:02.0", "0x020000", "0x8086");
  link("sys/class/infiniband/mlx5_0/device", "sys/bus/pci/devices/0000:01:00.0");
  put("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "bond0.17");
  link("sys/class/net/eth7/device", "sys/bus/pci/devices/0000:01:00.0");
  link("sys/class/net/eno1/device", "sys/bus/pci/devices/0000:00:02.0");
  fs::create_directories(root_ / "sys/class/net/lo");
  put("sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE");
  const Machine machine = read({.addresses = {{"bond0.17", "10.0.0.7"}, {"eno1", "10.0.1.1"}}});
  ASSERT_EQ(machine.devices.size(), 3u);
  const Device* const card = find_device(machine, "mlx5_0");
  ASSERT_NE(card, nullptr);
  EXPECT_EQ(card->place.address, "0000:01:00.0");
  EXPECT_THAT(card->interfaces, ElementsAre("bond0.17", "eth7"));
  EXPECT_THAT(card->addresses, ElementsAre("10.0.0.7"));
  EXPECT_EQ(find_card(machine, "eth7"), card);
  EXPECT_EQ(find_device(machine, "0000:00:02.0")->name, "eno1");
  ASSERT_NE(find_device(machine, "rxe0"), nullptr);
  EXPECT_EQ(find_device(machine, "rxe0")->place.address, "");
  EXPECT_EQ(find_device(machine, "lo"), nullptr);
}

TEST_F(MachineTree, KeepsToWhatTheKernelTellsOfLinks) {
  device("0000:00:01.0", "0x060400", "0x8086");
  device("0000:00:01.0/0000:01:00.0", "0x010802", "0x144d");
  const Machine machine = read();
  ASSERT_EQ(machine.devices.size(), 1u);
  EXPECT_EQ(machine.devices[0].place.link.width, 0) << "255 is the width of a link that is down";
  EXPECT_EQ(machine.devices[0].place.link.most_width, 0) << "there is no such file";
  EXPECT_EQ(machine.devices[0].place.link.speed, 16);
  EXPECT_FALSE(trained_down(machine, machine.devices[0]));
  EXPECT_EQ(machine.bridges.at("0000:00:01.0").acs, Acs::unknown) << "no configuration space was readable";
}

TEST_F(MachineTree, PutsControllersOfRemoteDrivesBehindTheirCards) {
  device("0000:00:02.0", "0x020000", "0x15b3");
  link("sys/class/net/eth0/device", "sys/bus/pci/devices/0000:00:02.0");
  put("sys/class/nvme/nvme1/transport", "tcp");
  put("sys/class/nvme/nvme1/address", "traddr=10.0.0.9,trsvcid=4420,src_addr=10.0.0.1");
  put("sys/class/nvme/nvme2/transport", "rdma");
  put("sys/class/nvme/nvme2/address", "traddr=10.0.0.9,trsvcid=4420,host_iface=eth0");
  put("sys/class/nvme/nvme3/transport", "tcp");
  put("sys/class/nvme/nvme3/address", "traddr=10.0.0.9");
  const Machine machine = read({.addresses = {{"eth0", "10.0.0.1"}}});
  ASSERT_EQ(machine.remotes.size(), 3u);
  EXPECT_EQ(machine.remotes[0].card, "eth0");
  EXPECT_EQ(machine.remotes[1].card, "eth0");
  EXPECT_EQ(machine.remotes[1].address, "10.0.0.9");
  EXPECT_EQ(machine.remotes[2].card, "") << "nothing tells";
}

TEST(Told, ReadsItsLinesAndWritesThem) {
  const Told told = told_by_lines(
      "uid 0\naddress eth0 10.0.0.1\npeer 0000:0A:00.0 0000:0b:00.0 access=1 nvlink=1 links=18\n"
      "peer short\naddress\n");
  ASSERT_EQ(told.peers.size(), 1u);
  EXPECT_EQ(told.peers[0].one, "0000:0a:00.0") << "the driver writes capitals";
  EXPECT_EQ(told.peers[0].links, 18);
  EXPECT_TRUE(told.peers_known);
  EXPECT_FALSE(told_by_lines("uid 0\n").peers_known);
  EXPECT_TRUE(told_by_lines("peers asked\n").peers_known);
  EXPECT_EQ(to_lines(told_by_lines(to_lines(told))), to_lines(told));
}

TEST(Export, AMachineWithoutABusIsAnEmptyTree) {
  const std::string text = to_json(read_machine(facts::Root("/no/such/tree"), {}));
  EXPECT_EQ(text.rfind("// Topology file for cuFile.\n{", 0), 0u);
  EXPECT_THAT(text, testing::HasSubstr("\"devices\": []"));
}

TEST(Export, AFileThatCannotBeWrittenIsAnInvalidValue) {
  try {
    write_file("/no/such/folder/topology.json", "{}");
    FAIL() << "it was written";
  } catch (const base::Failure& failure) {
    EXPECT_EQ(failure.code(), CU_FILE_INVALID_VALUE);
    EXPECT_EQ(failure.cause(), ENOENT);
  }
}

}  // namespace
}  // namespace sluice::topology
