// SPDX-License-Identifier: Apache-2.0
// Each policy of dynamic routing, and why it does not apply.
#include "topology/routing.h"

#include <gmock/gmock.h>

#include "topology/drawn.h"

namespace sluice::topology {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

Route routed(Machine& machine, const std::string& device, const std::string& gpu, std::vector<Policy> order) {
  RoutingRules rules;
  rules.order = std::move(order);
  return route_between(machine, device_named(machine, device), device_named(machine, gpu), rules);
}

constexpr auto all = {Policy::gpu_mem_nvlinks, Policy::gpu_mem, Policy::sys_mem, Policy::p2p};

TEST(Routing, DoesNothingWhereCardAndGpuShareASwitch) {
  Machine machine = drawn_machine();
  const Route route = routed(machine, "card0", "GPU0", all);
  EXPECT_FALSE(route.policy);
  EXPECT_TRUE(route.passed.empty());
  EXPECT_EQ(route.why, "straight: card0 and GPU0 are both below 0000:01:00.0");
  machine.bridges["0000:02:02.0"].acs = Acs::on;
  EXPECT_THAT(routed(machine, "card0", "GPU0", all).why, HasSubstr("access control sends the bytes up to the host"));
}

TEST(Routing, DoesNothingWhereTheBusDoesNotTell) {
  Machine machine = drawn_machine();
  machine.flat = true;
  machine.nodes.resize(1);
  const Route route = routed(machine, "card0", "GPU2", all);
  EXPECT_FALSE(route.policy);
  EXPECT_EQ(route.why, "straight: the bus does not tell how near card0 and GPU2 are");
}

TEST(Routing, ANodeAloneDoesNotTellThatNoSwitchIsShared) {
  Machine machine = drawn_machine();
  machine.flat = true;
  join(machine, "GPU0", "GPU2", 18);
  EXPECT_FALSE(routed(machine, "card0", "GPU0", all).policy);
  const Route far = routed(machine, "card0", "GPU2", all);
  EXPECT_EQ(far.policy, Policy::sys_mem);
  EXPECT_EQ(far.passed[0].why, "the bus does not tell which GPU is near card0");
}

TEST(Routing, GoesByTheNearGpuWithTheMostNvlinks) {
  Machine machine = drawn_machine();
  join(machine, "GPU0", "GPU2", 2);
  join(machine, "GPU1", "GPU2", 4);
  const Route route = routed(machine, "card0", "GPU2", all);
  EXPECT_EQ(route.policy, Policy::gpu_mem_nvlinks);
  EXPECT_EQ(route.stage, "GPU1");
  EXPECT_EQ(route.why, "by the memory of GPU1: it is near card0, and 4 NVLinks lead to GPU2");
}

TEST(Routing, GoesByANearGpuOverTheBusWhereNoNvlinkLeadsOn) {
  Machine machine = drawn_machine();
  join(machine, "GPU1", "GPU2", 0);
  const Route route = routed(machine, "card0", "GPU2", all);
  EXPECT_EQ(route.policy, Policy::gpu_mem);
  EXPECT_EQ(route.stage, "GPU1");
  EXPECT_THAT(route.passed, ElementsAre(Field(&Passed::why, "no NVLink leads from a GPU near card0 to GPU2")));
}

TEST(Routing, GoesByHostMemoryOfTheCardsNodeElse) {
  Machine machine = drawn_machine();
  machine.told.peers_known = true;
  const Route route = routed(machine, "card0", "GPU2", all);
  EXPECT_EQ(route.policy, Policy::sys_mem);
  EXPECT_EQ(route.stage, "host memory of node 0");
  ASSERT_EQ(route.passed.size(), 2u);
  EXPECT_EQ(route.passed[1].policy, Policy::gpu_mem);
  EXPECT_EQ(route.passed[1].why, "GPU2 does not reach the memory of GPU0");
}

TEST(Routing, SaysWhenTheDriverWasNotAsked) {
  Machine machine = drawn_machine();
  const Route route = routed(machine, "card0", "GPU2", all);
  ASSERT_EQ(route.passed.size(), 2u);
  EXPECT_EQ(route.passed[0].why, "whether NVLinks lead from GPU0 to GPU2 is not known");
  EXPECT_EQ(route.passed[1].why, "whether GPU2 reaches the memory of GPU0 is not known");
}

TEST(Routing, ACardWithoutANearGpuHasNoStageOnOne) {
  Machine machine = drawn_machine();
  join(machine, "GPU0", "GPU2", 18);
  const Route route = routed(machine, "card1", "GPU2", all);
  EXPECT_EQ(route.distance.nearness, Nearness::same_root);
  EXPECT_EQ(route.policy, Policy::sys_mem);
  EXPECT_EQ(route.passed[0].why, "no GPU is near card1");
}

TEST(Routing, TheFirstPolicyOfTheOrderThatAppliesIsTaken) {
  Machine machine = drawn_machine();
  join(machine, "GPU0", "GPU2", 18);
  EXPECT_EQ(routed(machine, "card0", "GPU2", {Policy::p2p, Policy::gpu_mem_nvlinks}).policy, Policy::p2p);
  EXPECT_EQ(routed(machine, "card0", "GPU2", {Policy::sys_mem, Policy::p2p}).policy, Policy::sys_mem);
  const Route none = routed(machine, "card1", "GPU0", {Policy::gpu_mem_nvlinks, Policy::gpu_mem});
  EXPECT_FALSE(none.policy);
  EXPECT_EQ(none.passed.size(), 2u);
  EXPECT_EQ(none.why, "straight from card1 to GPU0: no policy of the order applies");
}

TEST(Routing, AFileOfStaticRoutesDecidesWhatIsNear) {
  Machine machine = drawn_machine();
  RoutingRules rules;
  rules.fixed[{"0000:86:00.0", "0000:83:00.0"}] = 1;
  const Route near = route_between(machine, device_named(machine, "card1"), device_named(machine, "GPU2"), rules);
  EXPECT_EQ(near.why, "straight: the file of static routes has card1 near GPU2");
  join(machine, "GPU2", "GPU0", 18);
  const Route by = route_between(machine, device_named(machine, "card1"), device_named(machine, "GPU0"), rules);
  EXPECT_EQ(by.policy, Policy::gpu_mem_nvlinks);
  EXPECT_EQ(by.stage, "GPU2");
}

TEST(Routing, ReadsItsKeys) {
  config::Config config;
  EXPECT_FALSE(routing_rules(config).on);
  EXPECT_THAT(routing_rules(config).order, testing::ElementsAreArray(all));
  config.set(config::key_at("properties.rdma_dynamic_routing"), true, config::Origin::file);
  config.set(config::key_at("properties.rdma_dynamic_routing_order"), std::vector<std::string>{"P2P", "SYS_MEM"},
             config::Origin::file);
  EXPECT_TRUE(routing_rules(config).on);
  EXPECT_THAT(routing_rules(config).order, ElementsAre(Policy::p2p, Policy::sys_mem));
}

class MountRouting : public testing::Test {
 protected:
  MountRouting() : machine_(drawn_machine()) {
    machine_.told.addresses = {{"eth0", "10.0.0.1"}, {"eth1", "10.0.0.2"}};
    device_named(machine_, "card0").rdma = {"card0"};
    device_named(machine_, "card0").addresses = {"10.0.0.1"};
    device_named(machine_, "card1").rdma = {"card1"};
    device_named(machine_, "card1").addresses = {"10.0.0.2"};
  }
  MountRoute mount(const std::string& gpu, std::vector<std::string> addresses, int nearest = 1) {
    RoutingRules rules;
    rules.nearest = nearest;
    return route_for(machine_, {"key", "", std::move(addresses)}, device_named(machine_, gpu), rules);
  }
  Machine machine_;
};

TEST_F(MountRouting, TakesTheNearestCard) {
  const MountRoute near = mount("GPU0", {"10.0.0.2", "10.0.0.1"});
  ASSERT_TRUE(near.route);
  EXPECT_EQ(near.route->device, "card0");
  EXPECT_FALSE(near.route->policy);
  EXPECT_EQ(near.candidates.size(), 1u);
  EXPECT_EQ(mount("GPU2", {"10.0.0.2", "10.0.0.1"}).route->device, "card1");
}

TEST_F(MountRouting, UsesAsManyRanksAsItIsTold) {
  EXPECT_EQ(mount("GPU0", {"10.0.0.2", "10.0.0.1"}, 2).candidates.size(), 2u);
  EXPECT_EQ(mount("GPU0", {"10.0.0.1", "10.0.0.1"}, 2).candidates.size(), 1u) << "one card, named twice";
}

TEST_F(MountRouting, HasNoWayWithoutAUsableCard) {
  const MountRoute none = mount("GPU0", {"10.0.0.9"});
  EXPECT_FALSE(none.route);
  EXPECT_EQ(none.why_none, "none of the addresses can be used");
  EXPECT_EQ(mount("GPU0", {}).why_none, "no list gives addresses of cards");
}

}  // namespace
}  // namespace sluice::topology
