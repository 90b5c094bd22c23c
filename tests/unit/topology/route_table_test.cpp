// SPDX-License-Identifier: Apache-2.0
// Of a file and a GPU: where its bytes come from, and which policy holds.
#include "topology/route_table.h"

#include <gmock/gmock.h>

#include "config/load.h"
#include "topology/drawn.h"

namespace sluice::topology {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::shared_ptr<const config::Config> configured(std::string_view text) {
  const auto config = std::make_shared<config::Config>();
  config::apply_text("cufile.json", text, *config);
  return config;
}

constexpr std::string_view lustre_list = R"({"properties": {"rdma_dynamic_routing": true},
    "fs": {"lustre": {"mount_table": {"/l/a": {"rdma_dev_addr_list": ["10.0.0.1"]}}}}})";

// drive0 as nvme0, and an address on card0.
Machine machine_with_storage() {
  Machine machine = drawn_machine();
  device_named(machine, "drive0").name = "nvme0";
  Device& card = device_named(machine, "card0");
  card.rdma = {"card0"};
  card.addresses = {"10.0.0.1"};
  machine.told.addresses = {{"ens1", "10.0.0.1"}};
  join(machine, "GPU0", "GPU2", 18);
  return machine;
}

FileRoute route(const Storage& storage, std::string_view gpu, std::string_view text = lustre_list) {
  const auto config = configured(text);
  return RouteTable::route_of(machine_with_storage(), *config, routing_rules(*config), storage, gpu);
}

TEST(RouteTable, AMountGoesByTheCardOfItsRow) {
  const FileRoute found = route({"lustre", "/l/a", {}}, "0000:83:00.0");
  ASSERT_TRUE(found.route);
  EXPECT_EQ(
      words_of(found),
      "dynamic routing: GPU_MEM_NVLINKS, stage GPU0 (by the memory of GPU0: it is near card0, and 18 NVLinks lead to "
      "GPU2; from fs.lustre.mount_table /l/a)");
  EXPECT_EQ(route({"lustre", "/l/b", {}}, "0000:83:00.0").why_none, "no list gives addresses of cards");
}

TEST(RouteTable, ADriveGoesByItsOwnPlaceAndTellsWhyNoEarlierPolicyApplies) {
  const FileRoute found = route({"ext4", "/data", {"nvme0n1"}}, "0000:83:00.0");
  ASSERT_TRUE(found.route);
  EXPECT_EQ(found.from, "nvme0");
  EXPECT_THAT(words_of(found), StartsWith("dynamic routing: SYS_MEM, stage host memory of node 0 ("));
  EXPECT_THAT(words_of(found),
              HasSubstr("; not GPU_MEM_NVLINKS: no GPU is near nvme0; not GPU_MEM: no GPU is near nvme0"));
}

TEST(RouteTable, TheFirstDriveOfAnArrayStandsForAll) {
  EXPECT_EQ(route({"xfs", "/data", {"nvme0n1", "nvme1n1"}}, "0000:83:00.0").from, "nvme0, one of 2 drives");
}

TEST(RouteTable, ADriveBehindANetworkGoesByItsCard) {
  Machine machine = machine_with_storage();
  machine.remotes = {{"nvme5", "rdma", "10.0.0.9", "card0"}};
  const auto config = configured(lustre_list);
  const FileRoute found =
      RouteTable::route_of(machine, *config, routing_rules(*config), {"ext4", "/far", {"nvme5n1"}}, "0000:83:00.0");
  ASSERT_TRUE(found.route);
  EXPECT_EQ(found.route->device, "card0");
}

TEST(RouteTable, AddressesOfGpusMayBeInCapitals) {
  Machine machine = machine_with_storage();
  device_named(machine, "GPU2").place.address = "0000:ab:00.0";
  const auto config = configured(lustre_list);
  EXPECT_TRUE(
      RouteTable::route_of(machine, *config, routing_rules(*config), {"lustre", "/l/a", {}}, "0000:AB:00.0").route);
}

TEST(RouteTable, SaysWhyThereIsNoRoute) {
  EXPECT_EQ(words_of(route({"tmpfs", "/tmp", {}}, "0000:83:00.0")),
            "dynamic routing: none, it is for NVMe drives, and for lustre, beegfs, nfs, weka and gpfs");
  EXPECT_EQ(words_of(route({"ext4", "/", {"nvme0n1"}}, "5347:01:00.0")),
            "dynamic routing: none, this GPU is not among those on the bus");
}

int times_asked = 0;
Told counted() {
  ++times_asked;
  return {};
}

TEST(RouteTable, AsksForTheTreeOnceAndNotWhereRoutingIsOff) {
  times_asked = 0;
  RouteTable off(configured("{}"), facts::Root("/nothing-is-here"), counted);
  EXPECT_FALSE(off.is_on());
  EXPECT_EQ(off.find({"ext4", "/", {"nvme0n1"}}, "0000:83:00.0"), nullptr);
  EXPECT_EQ(times_asked, 0);
  RouteTable on(configured(lustre_list), facts::Root("/nothing-is-here"), counted);
  EXPECT_EQ(times_asked, 0);
  const auto first = on.find({"ext4", "/", {"nvme0n1"}}, "0000:83:00.0");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(on.find({"ext4", "/", {"nvme0n1"}}, "0000:83:00.0"), first);
  EXPECT_NE(on.find({"ext4", "/", {"nvme0n1"}}, "0000:84:00.0"), first);
  EXPECT_EQ(times_asked, 1);
}

}  // namespace
}  // namespace sluice::topology
