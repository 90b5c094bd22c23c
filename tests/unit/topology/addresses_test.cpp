// SPDX-License-Identifier: Apache-2.0
// Which list of addresses holds, and what its addresses stand for.
#include "topology/addresses.h"

#include <gmock/gmock.h>

#include "config/load.h"
#include "topology/drawn.h"

namespace sluice::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

config::Config config_by(std::string_view text) {
  config::Config config;
  config::apply_text("cufile.json", text, config);
  return config;
}

constexpr std::string_view three_lists = R"({
  "properties": {"rdma_dev_addr_list": ["10.0.0.1"]},
  "fs": {"lustre": {"mount_table": {"/lustre": {"rdma_dev_addr_list": ["10.1.0.1"]},
                                    "/lustre/ai200/client1": {"rdma_dev_addr_list": ["172.172.1.40"]}}},
         "nfs": {"rdma_dev_addr_list": ["10.2.0.1"]}}})";

TEST(AddressLists, TheMountComesBeforeTheFileSystemAndThatBeforeAll) {
  const config::Config config = config_by(three_lists);
  const AddressList mount = addresses_for(config, "lustre", "/lustre/ai200/client1/run/a.bin");
  EXPECT_EQ(mount.key, "fs.lustre.mount_table");
  EXPECT_EQ(mount.mount, "/lustre/ai200/client1");
  EXPECT_THAT(mount.addresses, ElementsAre("172.172.1.40"));
  EXPECT_EQ(addresses_for(config, "nfs", "/nfs/a").key, "fs.nfs.rdma_dev_addr_list");
  EXPECT_EQ(addresses_for(config, "weka", "/weka/a").key, "properties.rdma_dev_addr_list");
  EXPECT_EQ(addresses_for(config, "lustre", "/elsewhere").key, "properties.rdma_dev_addr_list");
  EXPECT_TRUE(addresses_for(config::Config(), "weka", "/weka/a").key.empty());
}

TEST(AddressLists, RowsLieAbovePathsByComponents) {
  const config::Config config = config_by(three_lists);
  EXPECT_EQ(addresses_for(config, "lustre", "/lustre/ai200/client10/a").mount, "/lustre");
  EXPECT_EQ(addresses_for(config, "lustre", "/lustre/ai200/client1").mount, "/lustre/ai200/client1");
  EXPECT_EQ(addresses_for(config, "lustre", "/lustrous/a").mount, "");
}

TEST(AddressLists, AListBesidesATableIsAnError) {
  const config::Config config = config_by(R"({"fs": {"gpfs": {"rdma_dev_addr_list": ["10.0.0.1"],
      "mount_table": {"/g": {"rdma_dev_addr_list": ["10.0.0.2"]}}}}})");
  ASSERT_EQ(config.notes.size(), 1u);
  EXPECT_EQ(config.notes[0].level, config::LogLevel::error);
  EXPECT_THAT(config.notes[0].text, HasSubstr("fs.gpfs.rdma_dev_addr_list is given besides a mount_table"));
  EXPECT_TRUE(addresses_for(config, "gpfs", "/other").key.empty()) << "the list does not hold";
  EXPECT_EQ(addresses_for(config, "gpfs", "/g/a").key, "fs.gpfs.mount_table");
}

TEST(AddressLists, MountTypesHaveTheNamesOfTheConfiguration) {
  for (const auto& [type, name] : {std::pair{"nfs4", "nfs"}, std::pair{"lustre", "lustre"}, std::pair{"wekafs", "weka"},
                                   std::pair{"fhgfs", "beegfs"}, std::pair{"mmfs", "gpfs"}, std::pair{"xfs", ""}}) {
    EXPECT_EQ(routed_name(type), name) << type;
  }
}

TEST(Adapters, EachAddressThatCannotBeUsedSaysWhy) {
  Machine machine = drawn_machine();
  machine.told.addresses = {{"eth0", "10.0.0.1"}, {"bond0", "10.0.0.2"}, {"eth1", "10.0.0.3"}};
  device_named(machine, "card0").rdma = {"mlx5_0"};
  device_named(machine, "card0").addresses = {"10.0.0.1"};
  device_named(machine, "card1").addresses = {"10.0.0.3"};
  const std::vector<Adapter> adapters =
      adapters_of(machine, {"10.0.0.1", "fe80::1", "10.0.0.9", "10.0.0.2", "10.0.0.3"});
  ASSERT_EQ(adapters.size(), 5u);
  ASSERT_NE(adapters[0].card, nullptr);
  EXPECT_EQ(adapters[0].card->name, "card0");
  EXPECT_EQ(adapters[1].objection, "it is no IPv4 address");
  EXPECT_EQ(adapters[2].objection, "no interface of this machine has it");
  EXPECT_EQ(adapters[3].objection, "the interface bond0 has it, and no RDMA device stands behind that");
  EXPECT_EQ(adapters[4].objection, "the interface eth1 has it, and no RDMA device stands behind that");
}

TEST(AddressLists, AreAllListed) {
  const std::vector<AddressList> lists = all_address_lists(config_by(three_lists));
  ASSERT_EQ(lists.size(), 4u);
  EXPECT_EQ(lists[0].key, "properties.rdma_dev_addr_list");
  EXPECT_EQ(lists[2].mount, "/lustre/ai200/client1");
  EXPECT_EQ(lists[3].key, "fs.nfs.rdma_dev_addr_list");
}

}  // namespace
}  // namespace sluice::topology
