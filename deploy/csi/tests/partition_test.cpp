// SPDX-License-Identifier: Apache-2.0
// Partitions of a loop device: raw and with file systems, wiped when removed, whole after a crash between any two
// steps.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/unique_fd.h"
#include "core/bytes.h"
#include "core/claim_folders.h"
#include "core/partition_backend.h"
#include "core/process.h"
#include "core/refusal.h"
#include "facts/read.h"
#include "tests/loop_device.h"
#include "tests/pool.h"

namespace sluice::csi::partition_test {
namespace {

using testing::HasSubstr;

struct Crash {};

class PartitionTest : public testing::Test {
 protected:
  static constexpr std::int64_t drive_bytes = 1200 * mebibyte;

  void SetUp() override {
    const std::string why = why_no_pool();
    if (!why.empty()) GTEST_SKIP() << why;
    pool_ = std::make_unique<LoopPool>();
    drive_ = std::make_unique<LoopDevice>(pool_->at("drive"), drive_bytes, Partitions::gone_with_it);
  }
  void TearDown() override {
    if (drive_ == nullptr) return;
    // No partition outlives its test, whatever has failed.
    for (const facts::Mount& each : all_mounts()) {
      if (each.source.starts_with(drive_->path() + "p")) umount2(each.point.c_str(), MNT_DETACH);
    }
    PartitionDisk disk(drive_->path());
    while (!disk.table().entries.empty()) disk.remove(disk.table().entries.front().name);
  }

  std::unique_ptr<PartitionBackend> open(StepHook hook = {},
                                         std::chrono::milliseconds wipe_limit = std::chrono::minutes(1)) {
    PartitionOptions options;
    options.drive = drive_->path();
    options.state = pool_->at("state");
    options.wipe_limit = wipe_limit;
    options.at_step = std::move(hook);
    return std::make_unique<PartitionBackend>(std::move(options));
  }
  static VolumeRequest request(const std::string& name, std::int64_t bytes, const std::string& fs_type = "ext4") {
    VolumeRequest request;
    request.name = name;
    request.range = {bytes, 0};
    request.parameters = {{"backend", "partition"}, {"csi.storage.k8s.io/fstype", fs_type}};
    return request;
  }
  StageRequest staging(const std::string& id, AccessType type = AccessType::mount) const {
    StageRequest request;
    request.id = id;
    request.path = pool_->at("staging/" + id);
    request.capability = {type, "", {}, AccessMode::single_node_writer};
    return request;
  }
  PublishRequest publishing(const std::string& id, AccessType type, bool read_only = false) const {
    return {id,
            pool_->at("staging/" + id),
            pool_->at("pods/" + id + "/target"),
            {type, "", {}, AccessMode::single_node_writer},
            read_only};
  }
  // Of the whole drive, at a place.
  std::string bytes_at(std::int64_t offset, std::size_t bytes) const {
    std::string text(bytes, '?');
    const base::UniqueFd file(::open(drive_->path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    alignas(4096) static char buffer[4096];
    EXPECT_EQ(pread(file.get(), buffer, sizeof buffer, offset), static_cast<ssize_t>(sizeof buffer));
    return std::string(buffer, bytes);
  }
  template <typename Action>
  std::string refusal_of(Code code, Action action) {
    try {
      action();
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code(), code) << refusal.what();
      return refusal.what();
    }
    ADD_FAILURE() << "it was taken";
    return {};
  }

  std::unique_ptr<LoopPool> pool_;
  std::unique_ptr<LoopDevice> drive_;
};

TEST_F(PartitionTest, AVolumeHasAFileSystemOfItsOwnAndKeepsItsBytes) {
  const auto backend = open();
  const Record made = backend->create(request("volume", 100 * mebibyte));
  EXPECT_EQ(made.bytes, 100 * mebibyte);
  StageRequest stage = staging(made.id);
  stage.capability.mount_flags = {"noatime", "data=ordered"};
  backend->stage(stage);
  backend->stage(stage);
  EXPECT_TRUE(backend->is_staged(made.id, stage.path));
  EXPECT_THAT(mount_at(all_mounts(), stage.path)->options, HasSubstr("data=ordered"));
  EXPECT_EQ(mount_at(all_mounts(), stage.path)->type, "ext4");
  backend->publish(publishing(made.id, AccessType::mount));
  write_file(publishing(made.id, AccessType::mount).target + "/file", "bytes");
  unmount_all(publishing(made.id, AccessType::mount).target);
  backend->unstage(made.id, stage.path);
  EXPECT_FALSE(backend->is_staged(made.id, stage.path));
  open()->stage(stage);
  EXPECT_EQ(read_file(stage.path + "/file"), "bytes");
  EXPECT_GT(backend->usage(made.id, stage.path).total, 80 * mebibyte);
  EXPECT_FALSE(backend->condition(made, all_mounts()).abnormal);
  backend->unstage(made.id, stage.path);
}

TEST_F(PartitionTest, ARawVolumeIsTheDeviceItself) {
  const auto backend = open();
  const std::string id = backend->create(request("volume", 4 * mebibyte)).id;
  backend->stage(staging(id, AccessType::block));
  const PublishRequest publish = publishing(id, AccessType::block);
  backend->publish(publish);
  struct stat status {};
  ASSERT_EQ(stat(publish.target.c_str(), &status), 0);
  EXPECT_TRUE(S_ISBLK(status.st_mode));
  EXPECT_EQ(backend->usage(id, publish.target).total, 4 * mebibyte);
  ASSERT_EQ(backend->places(id, all_mounts()).size(), 1U);
  refusal_of(Code::failed_precondition, [&] { backend->remove(id); });
  refusal_of(Code::already_exists, [&] { backend->stage(staging(id)); });
  EXPECT_THAT(refusal_of(Code::invalid_argument, [&] { backend->publish(publishing(id, AccessType::block, true)); }),
              HasSubstr("read-only"));
  unmount_all(publish.target);
  backend->unstage(id, staging(id).path);
  backend->remove(id);
  EXPECT_TRUE(backend->records().empty());
}

TEST_F(PartitionTest, WhatIsRemovedIsZeroesBeforeItsRoomIsFree) {
  const auto backend = open();
  const std::int64_t room = backend->available();
  const std::string id = backend->create(request("volume", 600 * mebibyte)).id;
  EXPECT_EQ(backend->available(), room - 600 * mebibyte);
  const std::string node = drive_->path() + "p1";
  for (const std::int64_t at : {std::int64_t{0}, 300 * mebibyte, 600 * mebibyte - 4096}) {
    const base::UniqueFd file(::open(node.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(file.get(), std::string(4096, 's').data(), 4096, at), 4096);
    ASSERT_EQ(fsync(file.get()), 0);
    ASSERT_EQ(bytes_at(mebibyte + at, 6), "ssssss");
  }
  backend->remove(id);
  for (const std::int64_t at : {std::int64_t{0}, 300 * mebibyte, 600 * mebibyte - 4096})
    EXPECT_EQ(bytes_at(mebibyte + at, 6), std::string(6, '\0'));
  EXPECT_EQ(backend->available(), room);
  EXPECT_FALSE(facts::exists("/sys/class/block/" + std::string(facts::last_component(node))));
}

TEST_F(PartitionTest, ALongWipeGoesOnWhereTheLastCallLeftOff) {
  const std::string id = open()->create(request("volume", 600 * mebibyte)).id;
  int calls = 0;
  std::int64_t wiped = 0;
  for (bool done = false; !done; ++calls) {
    // A new driver each time: what is done is on the disk.
    const auto backend = open({}, std::chrono::milliseconds(0));
    try {
      backend->remove(id);
      done = true;
    } catch (const Refusal& refusal) {
      ASSERT_EQ(refusal.code(), Code::aborted);
      ASSERT_GT(backend->find(id)->wiped, wiped);
      wiped = backend->find(id)->wiped;
      EXPECT_EQ(backend->find(id)->state, RecordState::removing);
    }
  }
  EXPECT_EQ(calls, 3);
}

TEST_F(PartitionTest, WhatIsToldToBeFreeCanBeHadAndGrowsWhereThereIsRoomBehindIt) {
  const auto backend = open();
  const std::string first = backend->create(request("first", 100 * mebibyte)).id;
  const std::string second = backend->create(request("second", 320 * mebibyte, "xfs")).id;
  EXPECT_THAT(refusal_of(Code::resource_exhausted, [&] { backend->grow(first, 101 * mebibyte, ""); }),
              HasSubstr("Remove the volume behind it"));
  backend->stage(staging(second));
  EXPECT_EQ(backend->grow(second, 500 * mebibyte, staging(second).path).bytes, 500 * mebibyte);
  EXPECT_GT(backend->usage(second, staging(second).path).total, 400 * mebibyte);
  EXPECT_EQ(backend->grow(second, 100 * mebibyte, staging(second).path).bytes, 500 * mebibyte);
  backend->unstage(second, staging(second).path);
  backend->remove(first);
  const std::int64_t most = backend->largest();
  EXPECT_GT(backend->available(), most);
  refusal_of(Code::resource_exhausted, [&] { backend->create(request("more", most + 1)); });
  EXPECT_EQ(backend->create(request("all", most)).bytes, most);
  EXPECT_EQ(backend->largest(), 100 * mebibyte);
}

TEST_F(PartitionTest, ACrashAnywhereWhileItIsMadeGrownOrRemovedLosesNothing) {
  const auto crash_everywhere = [&](auto action) {
    for (int crash_at = 1;; ++crash_at) {
      int steps = 0;
      auto backend = open([&](const char*) {
        if (++steps == crash_at) throw Crash();
      });
      try {
        action(*backend);
        return crash_at - 1;
      } catch (const Crash&) {
        backend.reset();
        action(*open());
      }
    }
  };
  const std::int64_t room = open()->available();
  const int steps = crash_everywhere([&](PartitionBackend& backend) {
    const std::string id = backend.create(request("volume", 20 * mebibyte)).id;
    EXPECT_EQ(backend.grow(id, 40 * mebibyte, "").bytes, 40 * mebibyte);
    backend.remove(id);
  });
  EXPECT_GE(steps, 8);
  EXPECT_EQ(open()->available(), room);
  EXPECT_TRUE(open()->records().empty());
}

TEST_F(PartitionTest, ADriveThatComesWithoutItsRecordsKeepsItsVolumes) {
  StageRequest stage;
  {
    const auto backend = open();
    stage = staging(backend->create(request("volume", 64 * mebibyte)).id);
    stage.capability.fs_type = "ext4";
    backend->stage(stage);
    write_file(stage.path + "/file", "bytes");
    backend->unstage(stage.id, stage.path);
  }
  std::filesystem::remove_all(pool_->at("state"));
  const auto backend = open();
  ASSERT_EQ(backend->records().size(), 1U);
  EXPECT_EQ(backend->find(stage.id)->bytes, 64 * mebibyte);
  backend->stage(stage);
  EXPECT_EQ(read_file(stage.path + "/file"), "bytes");
  backend->unstage(stage.id, stage.path);
}

TEST_F(PartitionTest, WhatIsNotBlankAndNotOursIsNeverTouched) {
  ASSERT_EQ(run_program({"mkfs.ext4", "-q", drive_->path()}, std::chrono::seconds(60)).status, 0);
  const std::string before = bytes_at(1024, 512);
  EXPECT_THAT(refusal_of(Code::failed_precondition, [&] { open(); }), HasSubstr("holds ext4"));
  EXPECT_EQ(bytes_at(1024, 512), before);
  drive_ = std::make_unique<LoopDevice>(pool_->at("other"), 16 * mebibyte, Partitions::gone_with_it);
  Gpt foreign = new_gpt(512, 16 * mebibyte / 512);
  foreign.entries.push_back({1, 2048, 4095, "somebody", {1, 2, 3}, {}});
  {
    const base::UniqueFd file(::open(drive_->path().c_str(), O_WRONLY | O_CLOEXEC));
    for (const GptPiece& each : pieces_of(foreign))
      ASSERT_EQ(pwrite(file.get(), each.bytes.data(), each.bytes.size(), static_cast<off_t>(each.offset)),
                static_cast<ssize_t>(each.bytes.size()));
  }
  EXPECT_THAT(refusal_of(Code::failed_precondition, [&] { open(); }), HasSubstr("somebody"));
  drive_.reset();
}

TEST_F(PartitionTest, SnapshotsAndClonesAreRefusedWithTheReason) {
  const auto backend = open();
  const std::string id = backend->create(request("volume", mebibyte)).id;
  EXPECT_THAT(refusal_of(Code::invalid_argument, [&] { backend->snapshot("s", id); }), HasSubstr("directory"));
  VolumeRequest clone = request("clone", mebibyte);
  clone.source = {ContentKind::volume, id};
  EXPECT_THAT(refusal_of(Code::invalid_argument, [&] { backend->create(clone); }), HasSubstr("directory"));
}

TEST_F(PartitionTest, AClaimHasAFileSystemOfItsOwnOnItsDriveAndGoesInAsManyCallsAsItTakes) {
  Volumes volumes;
  OperationLocks locks;
  const Names names;
  volumes.add(open({}, std::chrono::milliseconds(0)));
  ClaimFolders folders(volumes, locks, names, pool_->at("claims"));
  const std::string drive(facts::last_component(drive_->path()));
  const std::string name = ClaimFolders::name_of("uid", 0);
  EXPECT_THAT(refusal_of(Code::failed_precondition, [&] { folders.make(name, "nvme99n1", 320 * mebibyte); }),
              HasSubstr("nvme99n1"));
  const std::string at = folders.make(name, drive, 320 * mebibyte);
  write_file(at + "/file", "kept");
  EXPECT_EQ(folders.make(name, drive, 320 * mebibyte), at);
  EXPECT_EQ(read_file(at + "/file"), "kept");
  folders.remove("another");
  EXPECT_EQ(read_file(at + "/file"), "kept");
  int calls = 1;
  const auto is_removed = [&] {
    try {
      folders.remove("uid");
      return true;
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code(), Code::aborted) << refusal.what();
      return false;
    }
  };
  for (; !is_removed() && calls < 1000; ++calls) EXPECT_FALSE(facts::exists(at + "/file"));
  EXPECT_GT(calls, 1);
  EXPECT_FALSE(facts::exists(at));
  EXPECT_TRUE(volumes.backends().front()->records().empty());
}

}  // namespace
}  // namespace sluice::csi::partition_test
