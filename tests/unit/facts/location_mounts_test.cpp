// SPDX-License-Identifier: Apache-2.0
// Known places while file systems come and go: in a child with a mount table of its own. Needs the right to mount.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "base/unique_fd.h"
#include "facts/descriptor.h"
#include "facts/location.h"

namespace sluice::facts {
namespace {

using base::UniqueFd;

constexpr int cannot_mount = 77;

class Mounts : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-mounts.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (const char* place : {"a", "b"}) ASSERT_EQ(::mkdir((folder_ / place).c_str(), 0700), 0);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs it in a child; its failures are this test's. What it has mounted goes with it.
  void in_a_child(const std::function<void()>& body) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        ::_exit(cannot_mount);
      }
      if (::mount("none", a().c_str(), "tmpfs", 0, nullptr) != 0) ::_exit(cannot_mount);
      EXPECT_EQ(::umount(a().c_str()), 0);
      body();
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == cannot_mount) GTEST_SKIP() << "mounting is not permitted here";
    EXPECT_EQ(status, 0);
  }

  std::filesystem::path a() const { return folder_ / "a"; }
  std::filesystem::path b() const { return folder_ / "b"; }
  static void put(const char* type, const std::filesystem::path& where, const char* options = nullptr) {
    ASSERT_EQ(::mount("none", where.c_str(), type, 0, options), 0) << std::strerror(errno);
  }
  static UniqueFd file_in(const std::filesystem::path& folder) {
    UniqueFd fd(::open((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_TRUE(fd) << std::strerror(errno);
    return fd;
  }
  FileFacts facts_of(const std::filesystem::path& folder) { return of_file(file_in(folder).get(), Root{}, places_); }

  std::filesystem::path folder_;
  Locations places_;
};

// The kernel gives the lowest free numbers, unless another process mounts something just then.
TEST_F(Mounts, AnotherFileSystemAtTheSamePathWithTheSameNumbersIsAnother) {
  in_a_child([this] {
    constexpr int most_tries = 50;
    bool same_numbers = false;
    for (int i = 0; i < most_tries && !same_numbers; ++i) {
      put("tmpfs", a());
      const Descriptor before = ask(file_in(a()).get());
      for (int look = 0; look < 2; ++look) EXPECT_EQ(facts_of(a()).file_system_name, "tmpfs");
      ASSERT_EQ(::umount(a().c_str()), 0);
      put("ramfs", a());
      const Descriptor after = ask(file_in(a()).get());
      for (int look = 0; look < 2; ++look) EXPECT_EQ(describe(facts_of(a())), "ramfs on " + a().string());
      ASSERT_EQ(::umount(a().c_str()), 0);
      same_numbers = before.device == after.device && before.mount_id == after.mount_id;
    }
    EXPECT_TRUE(same_numbers) << "the kernel has given other numbers each time";
  });
}

TEST_F(Mounts, WhatLiesUnderAMountIsSeenAgainWhenThatIsGone) {
  in_a_child([this] {
    put("tmpfs", a());
    EXPECT_EQ(facts_of(a()).file_system_name, "tmpfs");
    put("ramfs", a());
    EXPECT_EQ(facts_of(a()).file_system_name, "ramfs");
    ASSERT_EQ(::umount(a().c_str()), 0);
    EXPECT_EQ(facts_of(a()).file_system_name, "tmpfs");
    ASSERT_EQ(::umount(a().c_str()), 0);
    EXPECT_NE(facts_of(a()).mount_point, a().string());
  });
}

TEST_F(Mounts, ABindMountIsAPlaceOfItsOwn) {
  if (ask(file_in(a()).get()).mount_id == 0) GTEST_SKIP() << "this kernel or emulator tells no numbers of mounts";
  in_a_child([this] {
    put("tmpfs", a());
    ASSERT_EQ(::mount(a().c_str(), b().c_str(), nullptr, MS_BIND, nullptr), 0);
    const FileFacts original = facts_of(a());
    const FileFacts bound = facts_of(b());
    EXPECT_EQ(original.device, bound.device);
    EXPECT_EQ(original.mount_point, a().string());
    EXPECT_EQ(bound.mount_point, b().string());
    ASSERT_EQ(::umount(a().c_str()), 0);
    EXPECT_EQ(facts_of(b()).mount_point, b().string());
  });
}

TEST_F(Mounts, ARemountChangesNothingThatIsKept) {
  in_a_child([this] {
    put("tmpfs", a(), "size=1m");
    const FileFacts before = facts_of(a());
    ASSERT_EQ(::mount("none", a().c_str(), nullptr, MS_REMOUNT | MS_NOSUID | MS_NOATIME, "size=2m"), 0);
    const UniqueFd fd = file_in(a());
    const FileFacts known = of_file(fd.get(), Root{}, places_);
    const FileFacts now = of_file(fd.get(), Root{});
    for (const FileFacts* facts : {&known, &now}) {
      EXPECT_EQ(describe(*facts), describe(before));
      EXPECT_EQ(facts->memory_alignment, before.memory_alignment);
      EXPECT_EQ(facts->offset_alignment, before.offset_alignment);
      EXPECT_EQ(facts->direct_is_copied, before.direct_is_copied);
    }
  });
}

TEST_F(Mounts, AMountThatWasMovedIsToldWhereItIs) {
  in_a_child([this] {
    put("tmpfs", a());
    const UniqueFd fd = file_in(a());
    const FileFacts registered = of_file(fd.get(), Root{}, places_);
    EXPECT_EQ(describe_now(fd.get(), registered, Root{}), "tmpfs on " + a().string());
    ASSERT_EQ(::mount(a().c_str(), b().c_str(), nullptr, MS_MOVE, nullptr), 0);
    EXPECT_EQ(describe_now(fd.get(), of_file(fd.get(), Root{}, places_), Root{}), "tmpfs on " + b().string());
  });
}

TEST_F(Mounts, AFileThatOutlivesItsMountIsStillWhatItIs) {
  in_a_child([this] {
    put("tmpfs", a());
    const UniqueFd fd = file_in(a());
    ASSERT_EQ(::unlink((a() / "file").c_str()), 0);
    EXPECT_EQ(of_file(fd.get(), Root{}, places_).file_system, FileSystem::memory);
    ASSERT_EQ(::umount2(a().c_str(), MNT_DETACH), 0);
    put("ramfs", a());
    EXPECT_EQ(facts_of(a()).file_system_name, "ramfs");
    const FileFacts detached = of_file(fd.get(), Root{}, places_);
    EXPECT_EQ(detached.file_system_name, "tmpfs");
    EXPECT_EQ(describe_now(fd.get(), detached, Root{}), "tmpfs");
  });
}

TEST_F(Mounts, AnOverlayIsAPlaceBesideItsLayers) {
  in_a_child([this] {
    put("tmpfs", a());
    for (const char* part : {"lower", "upper", "work"}) ASSERT_EQ(::mkdir((a() / part).c_str(), 0700), 0);
    const std::string layers = "lowerdir=" + (a() / "lower").string() + ",upperdir=" + (a() / "upper").string() +
                               ",workdir=" + (a() / "work").string();
    if (::mount("none", b().c_str(), "overlay", 0, layers.c_str()) != 0) ::_exit(cannot_mount);
    EXPECT_EQ(facts_of(b()).file_system, FileSystem::stacked);
    EXPECT_EQ(facts_of(a() / "upper").file_system, FileSystem::memory);
    EXPECT_EQ(facts_of(b()).file_system, FileSystem::stacked);
  });
}

TEST_F(Mounts, AChangedRootChangesWhereAMountIsToldToBe) {
  in_a_child([this] {
    put("tmpfs", a());
    const UniqueFd fd = file_in(a());
    const FileFacts registered = of_file(fd.get(), Root{}, places_);
    ASSERT_EQ(::mkdir((a() / "proc").c_str(), 0700), 0);
    put("proc", a() / "proc");
    ASSERT_EQ(::chroot(a().c_str()), 0);
    ASSERT_EQ(::chdir("/"), 0);
    EXPECT_EQ(describe_now(fd.get(), registered, Root{}), "tmpfs on /");
    EXPECT_EQ(facts_of("/").file_system, FileSystem::memory);
  });
}

}  // namespace
}  // namespace sluice::facts
