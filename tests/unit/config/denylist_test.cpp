// SPDX-License-Identifier: Apache-2.0
// Which places the denylists mean.
#include "config/denylist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "config/sources.h"

namespace sluice::config {
namespace {

using testing::Optional;

const std::array<std::string, 2> disks{"sda", "sdb"};

TEST(Denylist, IsEmptyByDefaultAndWelcomesAll) {
  EXPECT_EQ(denial(Config(), {"ext4", "/data", "nvme0n1", "nvme", disks}), std::nullopt);
  EXPECT_EQ(denial(Config(), {}), std::nullopt);
}

TEST(Denylist, NamesTheKeyAndTheEntry) {
  const auto why = [](const std::string& list, const Place& place) {
    return denial(config_of("{\"denylist\": {" + list + "}}"), place);
  };
  const Place place{"ext4", "/data", "nvme0n1", "nvme", disks};
  EXPECT_THAT(why(R"("filesystems": ["xfs", "ext4"])", place),
              Optional(std::string("denylist.filesystems lists ext4")));
  EXPECT_THAT(why(R"("mounts": ["/data/"])", place), Optional(std::string("denylist.mounts lists /data/")));
  EXPECT_THAT(why(R"("devices": ["/dev/nvme0n1"])", place),
              Optional(std::string("denylist.devices lists /dev/nvme0n1")));
  EXPECT_THAT(why(R"("devices": ["sdb"])", place), Optional(std::string("denylist.devices lists sdb")));
  EXPECT_THAT(why(R"("drivers": ["nvme"])", place), Optional(std::string("denylist.drivers lists nvme")));
  EXPECT_EQ(
      why(R"("filesystems": ["ext"], "mounts": ["/dat", "/"], "devices": ["nvme0", ""], "drivers": ["nv"])", place),
      std::nullopt);
}

TEST(Denylist, SaysWhetherItHasAnyEntry) {
  EXPECT_FALSE(denies_anything(Config()));
  for (const std::string list : {"filesystems", "mounts", "devices", "drivers"}) {
    EXPECT_TRUE(denies_anything(config_of("{\"denylist\": {\"" + list + "\": [\"x\"]}}"))) << list;
  }
}

TEST(Denylist, DoesNotMeanPlacesThatAreNotKnown) {
  const Config config =
      config_of(R"({"denylist": {"filesystems": [""], "mounts": [""], "devices": [""], "drivers": [""]}})");
  EXPECT_EQ(denial(config, {}), std::nullopt);
}

TEST(Denylist, KnowsTheRootOfTheFileSystem) {
  EXPECT_NE(denial(config_of(R"({"denylist": {"mounts": ["/"]}})"), {"ext4", "/", "", ""}), std::nullopt);
}

}  // namespace
}  // namespace sluice::config
