// SPDX-License-Identifier: Apache-2.0
// How an array deals out its bytes, as sysfs tells it.
#include "facts/stripes.h"

#include <gtest/gtest.h>

#include "facts/tree.h"

namespace sluice::facts {
namespace {

Stripes stripes_in(const std::string& chunk, const std::string& drives, const std::string& level = "raid0\n") {
  Tree tree;
  tree.file("/sys/block/md0/md/chunk_size", chunk)
      .file("/sys/block/md0/md/raid_disks", drives)
      .file("/sys/block/md0/md/level", level);
  return stripes_of("md0", tree.root());
}

TEST(StripesOf, AnArrayAreItsChunksAndDrives) {
  const Stripes found = stripes_in("524288\n", "6\n");
  EXPECT_EQ(found.chunk, 524288U);
  EXPECT_EQ(found.drives, 6U);
  EXPECT_FALSE(found.mirrored);
}

TEST(StripesOf, AnArrayMayBeMirroredToo) {
  EXPECT_TRUE(stripes_in("524288\n", "4\n", "raid10\n").mirrored);
}

TEST(StripesOf, AMirrorAreNone) {
  const Stripes found = stripes_in("0\n", "2\n", "raid1\n");
  EXPECT_EQ(found.chunk, 0U);
  EXPECT_EQ(found.drives, 1U);
}

TEST(StripesOf, AnArrayOfOneDriveAreNone) {
  EXPECT_EQ(stripes_in("65536\n", "1\n").chunk, 0U);
}

TEST(StripesOf, ADiskThatIsNoArrayAreNone) {
  const Tree tree;
  EXPECT_EQ(stripes_of("nvme0n1", tree.root()).drives, 1U);
}

}  // namespace
}  // namespace sluice::facts
