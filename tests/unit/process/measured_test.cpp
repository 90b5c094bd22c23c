// SPDX-License-Identifier: Apache-2.0
// What was measured of a file system holds for its files, as long as it is the same one.
#include "process/measured.h"

#include <gtest/gtest.h>

namespace sluice::process {
namespace {

class MeasuredFileSystem : public testing::Test {
 protected:
  MeasuredFileSystem() {
    measured_.date = "2026-11-27";
    measured_.mounts.push_back({"/data", "xfs", {"sda", "sdb"}, "engine", "threads"});
    file_.mount_point = "/data";
    file_.file_system_name = "xfs";
    file_.block.name = "dm-0";
    file_.block.members = {"sda", "sdb"};
  }
  config::Measured measured_;
  facts::FileFacts file_;
};

TEST_F(MeasuredFileSystem, ChoosesForItsFiles) {
  const config::MeasuredMount* const mount = measured_for(measured_, file_);
  ASSERT_NE(mount, nullptr);
  paths::Options options;
  options.coherent = gpu::Coherent::automatic;
  const paths::Options there = options_as_measured(options, *mount);
  EXPECT_EQ(there.copy_mode, paths::CopyMode::copy_engine);
  EXPECT_EQ(there.disk_way, io::DiskWay::threads);
  EXPECT_EQ(there.coherent, gpu::Coherent::never) << "all goes the way that was chosen";
  EXPECT_EQ(words_of_profile(measured_, file_),
            "by the profile of 2026-11-27: sluice.copy is engine, sluice.disk_reads is threads");
}

TEST_F(MeasuredFileSystem, LeavesWhatWasNotMeasured) {
  measured_.mounts[0].copy.clear();
  paths::Options options;
  options.copy_mode = paths::CopyMode::kernel;
  EXPECT_EQ(options_as_measured(options, *measured_for(measured_, file_)).copy_mode, paths::CopyMode::kernel);
  EXPECT_EQ(words_of_profile(measured_, file_), "by the profile of 2026-11-27: sluice.disk_reads is threads");
}

TEST_F(MeasuredFileSystem, IsToldByItsDriveAlsoWhereThatIsOne) {
  measured_.mounts[0].drives = {"nvme0n1"};
  file_.block.name = "nvme0n1";
  file_.block.members.clear();
  EXPECT_NE(measured_for(measured_, file_), nullptr);
}

TEST_F(MeasuredFileSystem, ThatIsAnotherByNowIsLeftAloneAndSaysSo) {
  file_.block.members = {"sda", "sdc"};
  EXPECT_EQ(measured_for(measured_, file_), nullptr);
  EXPECT_EQ(words_of_profile(measured_, file_),
            "the profile of 2026-11-27 is left alone here: /data was xfs on sda+sdb then");
  file_.block.members = {"sda", "sdb"};
  file_.file_system_name = "ext4";
  EXPECT_EQ(measured_for(measured_, file_), nullptr);
}

TEST_F(MeasuredFileSystem, SaysNothingOfOthers) {
  file_.mount_point = "/other";
  EXPECT_EQ(measured_for(measured_, file_), nullptr);
  EXPECT_EQ(words_of_profile(measured_, file_), "");
}

TEST_F(MeasuredFileSystem, OfAProfileThatIsNotTakenSaysWhy) {
  measured_ = {"2026-11-27", "it was made on another machine", {}};
  EXPECT_EQ(words_of_profile(measured_, file_),
            "the profile of 2026-11-27 is left alone: it was made on another machine");
}

TEST_F(MeasuredFileSystem, OfAProfileWithoutADateNamesItsFile) {
  measured_ = {"", "there is no such file", {}, "/etc/fast.json"};
  EXPECT_EQ(words_of_profile(measured_, file_), "the profile /etc/fast.json is left alone: there is no such file");
}

}  // namespace
}  // namespace sluice::process
