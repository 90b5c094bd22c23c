// SPDX-License-Identifier: Apache-2.0
// The directory backend on a real xfs: crashes between any two steps, contents, room.
#include "core/directory_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "core/bytes.h"
#include "core/refusal.h"
#include "facts/read.h"
#include "tests/pool.h"

namespace sluice::csi {
namespace {

// What a crash is to the code that runs: it ends there.
struct Crash {};

class DirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_no_pool();
    if (!why.empty()) GTEST_SKIP() << why;
    pool_ = std::make_unique<LoopPool>();
  }

  std::unique_ptr<DirectoryBackend> open(StepHook hook = {}) {
    return std::make_unique<DirectoryBackend>(DirectoryOptions{pool_->path(), QuotaWish::none, std::move(hook)});
  }
  static VolumeRequest request(const std::string& name, std::int64_t bytes, Content source = {}) {
    VolumeRequest request;
    request.name = name;
    request.range = {bytes, 0};
    request.source = std::move(source);
    return request;
  }
  std::string folder(const std::string& id) const { return pool_->path() + "/sluice-csi/volumes/" + id; }
  std::size_t left_over(const std::string& name) const {
    return facts::list_names(pool_->path() + "/sluice-csi/" + name).size();
  }

  // Runs an action with a crash at its first step, then its second, and so on until one runs through; after each crash
  // a new driver does it again. Returns how many steps there were.
  template <typename Action>
  int crash_everywhere(Action action) {
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
  }

  std::unique_ptr<LoopPool> pool_;
};

TEST_F(DirectoryTest, ACrashWhileAVolumeIsMadeLeavesNothingAndLosesNothing) {
  int number = 0;
  const int steps = crash_everywhere([&](DirectoryBackend& backend) {
    const Record record = backend.create(request("volume-" + std::to_string(number), 8 * mebibyte));
    EXPECT_TRUE(facts::exists(folder(record.id)));
    ++number;
  });
  EXPECT_GE(steps, 5);
  EXPECT_EQ(left_over("making"), 0U);
  EXPECT_EQ(left_over("trash"), 0U);
}

TEST_F(DirectoryTest, ACrashWhileAVolumeIsRemovedIsEndedByTheNextDriver) {
  const int steps = crash_everywhere([&](DirectoryBackend& backend) {
    const Record record = backend.create(request("volume", 8 * mebibyte));
    write_file(folder(record.id) + "/file", "bytes");
    backend.remove(record.id);
    EXPECT_FALSE(facts::exists(folder(record.id)));
    EXPECT_TRUE(backend.records().empty());
  });
  EXPECT_GE(steps, 7);
  EXPECT_EQ(left_over("trash"), 0U);
}

TEST_F(DirectoryTest, ACrashWhileASnapshotIsMadeLosesNothing) {
  const std::string volume = open()->create(request("volume", 8 * mebibyte)).id;
  write_file(folder(volume) + "/file", "bytes");
  const int steps = crash_everywhere([&](DirectoryBackend& backend) {
    const Record snapshot = backend.snapshot("snapshot", volume);
    EXPECT_EQ(read_file(pool_->path() + "/sluice-csi/snapshots/" + snapshot.id + "/file"), "bytes");
    backend.remove_snapshot(snapshot.id);
  });
  EXPECT_GE(steps, 5);
  EXPECT_EQ(left_over("snapshots"), 0U);
}

TEST_F(DirectoryTest, ACrashWhileAVolumeGrowsNeverPromisesLessThanItGave) {
  const auto backend = open();
  const std::string id = backend->create(request("volume", 8 * mebibyte)).id;
  std::int64_t size = 8 * mebibyte;
  crash_everywhere([&](DirectoryBackend& each) {
    size += mebibyte;
    EXPECT_EQ(each.grow(id, size, "").bytes, size);
  });
}

TEST_F(DirectoryTest, ACloneSharesBlocksAndIsIndependent) {
  const auto backend = open();
  const std::string volume = backend->create(request("volume", 100 * mebibyte)).id;
  write_file(folder(volume) + "/big", std::string(32 << 20, 'a'));
  std::filesystem::create_directories(folder(volume) + "/deep/er");
  write_file(folder(volume) + "/deep/er/file", "inside");
  std::filesystem::create_symlink("deep/er/file", folder(volume) + "/link");
  std::filesystem::create_hard_link(folder(volume) + "/big", folder(volume) + "/same");
  ASSERT_EQ(chown((folder(volume) + "/deep").c_str(), 1000, 1000), 0);
  ASSERT_EQ(chmod((folder(volume) + "/deep").c_str(), 02750), 0);
  sync();
  const auto free_before = std::filesystem::space(pool_->path()).available;
  const std::string clone = backend->create(request("clone", 100 * mebibyte, {ContentKind::volume, volume})).id;
  EXPECT_LT(free_before - std::filesystem::space(pool_->path()).available, std::uintmax_t{4} << 20);

  EXPECT_EQ(read_file(folder(clone) + "/link"), "inside");
  EXPECT_EQ(std::filesystem::hard_link_count(folder(clone) + "/big"), 2U);
  struct stat status {};
  ASSERT_EQ(stat((folder(clone) + "/deep").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 1000U);
  EXPECT_EQ(status.st_mode & 07777U, 02750U);
  write_file(folder(clone) + "/deep/er/file", "changed");
  EXPECT_EQ(read_file(folder(volume) + "/deep/er/file"), "inside");
}

TEST_F(DirectoryTest, ASourceThatIsLargerThanTheVolumeIsRefused) {
  const auto backend = open();
  const std::string volume = backend->create(request("volume", 100 * mebibyte)).id;
  EXPECT_THROW(backend->create(request("clone", 50 * mebibyte, {ContentKind::volume, volume})), Refusal);
  EXPECT_EQ(backend->records().size(), 1U);
}

TEST_F(DirectoryTest, WhatIsToldToBeFreeCanBeHadToTheLastByteAndNotOneMore) {
  const auto backend = open();
  backend->create(request("first", 100 * mebibyte));
  const std::int64_t room = backend->available();
  EXPECT_THROW(backend->create(request("more", room + 1)), Refusal);
  const std::string id = backend->create(request("all", room)).id;
  EXPECT_EQ(backend->available(), 0);
  EXPECT_THROW(backend->grow(id, room + mebibyte, ""), Refusal);
  // It is really there.
  write_file(folder(id) + "/all", std::string(static_cast<std::size_t>(room), 'x'));
  backend->remove(id);
  EXPECT_EQ(backend->available(), room);
}

TEST_F(DirectoryTest, ProjectsOfQuotasAreNeverShared) {
  const auto backend = open();
  std::set<std::uint32_t> projects;
  for (int i = 0; i < 5; ++i) projects.insert(backend->create(request("v" + std::to_string(i), mebibyte)).project);
  EXPECT_EQ(projects.size(), 5U);
}

TEST_F(DirectoryTest, AFileSystemWithoutQuotasIsRefusedUnlessThatIsWanted) {
  const std::string mounts = facts::read_text("/proc/self/mountinfo").value_or("");
  if (mounts.find("prjquota") != std::string::npos) {
    EXPECT_NO_THROW(DirectoryBackend({pool_->path(), QuotaWish::require, {}}));
    return;
  }
  try {
    const DirectoryBackend backend({pool_->path(), QuotaWish::require, {}});
    FAIL() << "it was taken";
  } catch (const Refusal& refusal) {
    EXPECT_THAT(refusal.what(), testing::HasSubstr("prjquota"));
  }
}

TEST_F(DirectoryTest, AnotherFileSystemThanXfsIsRefused) {
  EXPECT_THROW(DirectoryBackend({pool_->folder(), QuotaWish::none, {}}), Refusal);
  EXPECT_THROW(DirectoryBackend({pool_->at("nothing"), QuotaWish::none, {}}), Refusal);
}

}  // namespace
}  // namespace sluice::csi
