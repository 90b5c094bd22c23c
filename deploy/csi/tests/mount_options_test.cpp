// SPDX-License-Identifier: Apache-2.0
#include "core/mount_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "core/refusal.h"

namespace sluice::csi {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MountOptions, OfAClassAreSplitIntoTheMountsAndTheFileSystems) {
  const MountPlan plan =
      plan_mount("xfs", {"noatime,nodiratime", "logbsize=256k", "allocsize=1m"}, FileSystemOf::volume);
  EXPECT_EQ(plan.flags, static_cast<unsigned long>(MS_NOATIME | MS_NODIRATIME | MS_NODEV | MS_NOSUID));
  EXPECT_EQ(plan.data, "logbsize=256k,allocsize=1m");
  EXPECT_THAT(plan.notes, IsEmpty());
}

TEST(MountOptions, NobarrierOfXfsIsLeftOutWithANote) {
  const MountPlan plan = plan_mount("xfs", {"nobarrier"}, FileSystemOf::volume);
  EXPECT_EQ(plan.data, "");
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("since Linux 4.19")));
}

TEST(MountOptions, NobarrierOfExt4IsRefusedBecauseItLosesData) {
  EXPECT_THROW(plan_mount("ext4", {"nobarrier"}, FileSystemOf::volume), Refusal);
  EXPECT_THROW(plan_mount("ext4", {"data=journal"}, FileSystemOf::volume), Refusal);
}

TEST(MountOptions, ThatNobodyKnowsFailWithTheKernelsWords) {
  try {
    plan_mount("xfs", {"frobnicate=7"}, FileSystemOf::volume);
    FAIL() << "it was taken";
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code(), Code::invalid_argument);
    EXPECT_THAT(refusal.what(), HasSubstr("Unknown parameter 'frobnicate'"));
  }
}

TEST(MountOptions, OfADirectoryAreTheMountsOnly) {
  const MountPlan plan = plan_mount("xfs", {"noatime", "logbufs=8", "nobarrier"}, FileSystemOf::pool);
  EXPECT_EQ(plan.data, "");
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("pool's options"), HasSubstr("4.19")));
  EXPECT_THROW(plan_mount("xfs", {"context=x"}, FileSystemOf::pool), Refusal);
}

TEST(MountOptions, OfExt4SayDataOrderedInWords) {
  EXPECT_EQ(plan_mount("ext4", {}, FileSystemOf::volume).data, "data=ordered");
  EXPECT_EQ(plan_mount("ext4", {"data=writeback"}, FileSystemOf::volume).data, "data=writeback");
}

TEST(MountOptions, ThatASecondMountHasLostAreNoticed) {
  const MountPlan plan = plan_mount("xfs", {"logbsize=256k", "largeio"}, FileSystemOf::volume);
  EXPECT_THAT(not_in_effect(plan, "rw,noatime,logbsize=256k,largeio,noquota"), IsEmpty());
  EXPECT_THAT(not_in_effect(plan, "rw,noatime,logbsize=32k,noquota"), ElementsAre("largeio"));
}

}  // namespace
}  // namespace sluice::csi
