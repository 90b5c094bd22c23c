// SPDX-License-Identifier: Apache-2.0
// Whose link to the host is asked for first.
#include "topology/lenders.h"

#include <gmock/gmock.h>

#include "topology/drawn.h"

namespace sluice::topology {
namespace {

using testing::ElementsAre;

const std::vector<std::string> gpus = {"0000:03:00.0", "0000:04:00.0", "0000:83:00.0", "0000:84:00.0"};

TEST(Lenders, ThatShareAnUplinkComeLast) {
  const Machine machine = drawn_machine();
  EXPECT_THAT(lenders_of(machine, gpus, 0), ElementsAre(2, 3, 1));
  EXPECT_THAT(lenders_of(machine, gpus, 1), ElementsAre(2, 3, 0));
  EXPECT_THAT(lenders_of(machine, gpus, 3), ElementsAre(0, 1, 2));
}

TEST(Lenders, OfTheSameNodeWithALinkOfTheirOwnComeFirst) {
  Machine machine = drawn_machine();
  Place& place = device_named(machine, "GPU3").place;
  place.root = "pci0000:40";
  place.node = 0;
  place.above = {};
  EXPECT_THAT(lenders_of(machine, gpus, 0), ElementsAre(3, 2, 1));
}

TEST(Lenders, OfWhichNothingIsKnownAreAskedInOrderFromTheTargetOn) {
  EXPECT_THAT(lenders_of(Machine{}, gpus, 2), ElementsAre(3, 0, 1));
  EXPECT_THAT(lenders_of(drawn_machine(), {"", "", "", ""}, 1), ElementsAre(2, 3, 0));
  EXPECT_THAT(lenders_of(drawn_machine(), {gpus[0]}, 0), ElementsAre());
}

}  // namespace
}  // namespace sluice::topology
