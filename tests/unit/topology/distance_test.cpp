// SPDX-License-Identifier: Apache-2.0
// How far devices are from each other.
#include "topology/distance.h"

#include <gmock/gmock.h>

#include "topology/drawn.h"

namespace sluice::topology {
namespace {

Distance between(Machine& machine, const std::string& one, const std::string& other) {
  return distance_between(machine, device_named(machine, one), device_named(machine, other));
}

TEST(Distance, CountsTheBridgesBelowTheSharedOne) {
  Machine machine = drawn_machine();
  const Distance near = between(machine, "card0", "GPU0");
  EXPECT_EQ(near.nearness, Nearness::same_switch);
  EXPECT_EQ(near.steps, 3);
  EXPECT_EQ(between(machine, "GPU0", "card0").steps, 3);
}

TEST(Distance, AddsTheDepthOfASharedBridgeWithAccessControl) {
  Machine machine = drawn_machine();
  machine.bridges["0000:01:00.0"].acs = Acs::on;
  EXPECT_EQ(between(machine, "card0", "GPU0").steps, 4);
  machine.bridges["0000:01:00.0"].acs = Acs::unknown;
  EXPECT_EQ(between(machine, "card0", "GPU0").steps, 3) << "what cannot be read is not held against it";
}

TEST(Distance, TellsHostBridgeNodeAndFarApart) {
  Machine machine = drawn_machine();
  EXPECT_EQ(between(machine, "drive0", "GPU0").nearness, Nearness::same_root);
  EXPECT_EQ(between(machine, "drive0", "GPU0").steps, 127 + 1 + 3 + 1);
  EXPECT_EQ(between(machine, "drive0", "GPU2").nearness, Nearness::far);
  EXPECT_EQ(between(machine, "drive0", "GPU2").steps, 254 + 1 + 3 + 1);
  device_named(machine, "drive0").place.root = "pci0000:40";
  EXPECT_EQ(between(machine, "drive0", "GPU0").nearness, Nearness::same_node);
}

TEST(Distance, IsUnknownWhereNothingTells) {
  Machine machine = drawn_machine();
  machine.flat = true;
  EXPECT_EQ(between(machine, "card0", "GPU0").nearness, Nearness::same_node) << "nodes that are told still tell";
  EXPECT_EQ(between(machine, "card0", "GPU2").nearness, Nearness::far);
  machine.nodes.resize(1);
  EXPECT_EQ(between(machine, "card0", "GPU0").nearness, Nearness::unknown);
  EXPECT_EQ(between(machine, "card0", "GPU0").steps, 0);
  Machine with_soft = drawn_machine();
  device_named(with_soft, "card0").place = {};
  EXPECT_EQ(between(with_soft, "card0", "GPU0").nearness, Nearness::unknown) << "it is on no bus";
}

TEST(Distance, PreferencesGrowWithTheDistance) {
  Machine machine = drawn_machine();
  const int near = preference_of(between(machine, "card0", "GPU0"));
  const int root = preference_of(between(machine, "drive0", "GPU0"));
  const int far = preference_of(between(machine, "card0", "GPU2"));
  EXPECT_GE(near, 1);
  EXPECT_LT(near, root);
  EXPECT_LT(root, far);
  EXPECT_LT(far, worst_preference);
  EXPECT_EQ(preference_of({}), worst_preference);
  EXPECT_LT(preference_of({Nearness::same_switch, 100000, 0}), near_limit) << "bounded by its class";
}

TEST(Distance, TheNarrowestLinkBoundsTheWay) {
  Machine machine = drawn_machine();
  EXPECT_NEAR(between(machine, "card0", "GPU0").bandwidth, 63.0, 0.1);
  device_named(machine, "card0").place.link = {16, 16, 4, 4};
  EXPECT_NEAR(between(machine, "card0", "GPU0").bandwidth, 7.9, 0.1);
  machine.bridges["0000:81:00.0"].place.link = {2.5, 32, 1, 16};
  EXPECT_NEAR(between(machine, "card0", "GPU2").bandwidth, 0.25, 0.01);
  machine.guest = true;
  EXPECT_NEAR(between(machine, "card0", "GPU2").bandwidth, 7.9, 0.1) << "a hypervisor's ports bound nothing";
}

TEST(TrainedDown, WantsBothEndsToBeAbleToDoMore) {
  Machine machine = drawn_machine();
  Device& card = device_named(machine, "card0");
  EXPECT_FALSE(trained_down(machine, card));
  card.place.link.width = 8;
  EXPECT_TRUE(trained_down(machine, card));
  machine.bridges["0000:02:02.0"].place.link.most_width = 8;
  EXPECT_FALSE(trained_down(machine, card)) << "its slot has eight lanes";
  Device& gpu = device_named(machine, "GPU0");
  gpu.place.link.speed = 2.5;
  EXPECT_FALSE(trained_down(machine, gpu)) << "GPUs rest";
  Bridge& upper = machine.bridges["0000:81:00.0"];
  upper.place.link.speed = 16;
  EXPECT_TRUE(trained_down(machine, upper));
  machine.guest = true;
  EXPECT_FALSE(trained_down(machine, upper));
}

}  // namespace
}  // namespace sluice::topology
