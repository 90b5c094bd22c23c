// SPDX-License-Identifier: Apache-2.0
// Places that are known already: when they are taken for known, and when they are asked for anew.
#include "facts/location.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "facts/tree.h"

namespace sluice::facts {
namespace {

using base::UniqueFd;

std::int64_t clock_now = 0;
std::int64_t slow_clock() noexcept {
  return clock_now;
}

class KnownPlaces : public testing::Test {
 protected:
  void SetUp() override { clock_now = 5000; }

  static Descriptor on(std::uint64_t unique_mount, dev_t device = makedev(8, 1)) {
    Descriptor descriptor;
    descriptor.mode = S_IFREG;
    descriptor.device = device;
    descriptor.unique_mount = unique_mount;
    return descriptor;
  }
  static std::shared_ptr<Location> place(const std::string& type) {
    auto made = std::make_shared<Location>();
    made->type = file_system_named(type);
    made->mount_point = "/data";
    made->block.name = "sda";
    made->block.driver = "sd";
    made->block.logical_block = 512;
    made->listed = true;
    return made;
  }
  std::string type_of(const Descriptor& descriptor) const {
    const auto found = places_.find(descriptor);
    return found ? found->type.name : "";
  }

  Locations places_{slow_clock};
};

TEST_F(KnownPlaces, AreFoundByTheMountAndTheDevice) {
  EXPECT_EQ(type_of(on(100)), "");
  places_.keep(on(100), place("ext4"));
  EXPECT_EQ(type_of(on(100)), "ext4");
  clock_now += 1'000'000'000;
  EXPECT_EQ(type_of(on(100)), "ext4");
}

TEST_F(KnownPlaces, AreNotThoseOfAMountThatCameLaterWithTheSameDeviceNumber) {
  places_.keep(on(100), place("ext4"));
  EXPECT_EQ(type_of(on(101)), "");
  places_.keep(on(101), place("xfs"));
  EXPECT_EQ(type_of(on(101)), "xfs");
  EXPECT_EQ(type_of(on(100)), "ext4");
}

TEST_F(KnownPlaces, AreNotThoseOfAnotherDeviceNumberInTheSameMount) {
  places_.keep(on(100, makedev(0, 44)), place("btrfs"));
  EXPECT_EQ(type_of(on(100, makedev(0, 45))), "");
}

TEST_F(KnownPlaces, AreThoseThatWereAskedForInFull) {
  auto unlisted = place("ext4");
  unlisted->listed = false;
  places_.keep(on(100), unlisted);
  EXPECT_EQ(type_of(on(100)), "");
  auto half_told = place("ext4");
  half_told->block.logical_block = 0;
  places_.keep(on(100), half_told);
  EXPECT_EQ(type_of(on(100)), "");
  auto without_a_disk = place("tmpfs");
  without_a_disk->block = {};
  places_.keep(on(100), without_a_disk);
  EXPECT_EQ(type_of(on(100)), "tmpfs");
}

TEST_F(KnownPlaces, AreForgottenSoonWhereTheDisksBelowMayChange) {
  auto mapping = place("ext4");
  mapping->block = {"dm-0", "device-mapper", "", 512, {"sda", "sdb"}, false};
  auto network = place("ext4");
  network->block = {"nvme0n1", "nvme", "tcp", 512, {}, true};
  auto drive = place("ext4");
  drive->block = {"nvme0n1", "nvme", "pcie", 512, {}, false};
  places_.keep(on(100), mapping);
  places_.keep(on(101), network);
  places_.keep(on(102), drive);
  for (const std::uint64_t mount : {100, 101, 102}) EXPECT_EQ(type_of(on(mount)), "ext4") << mount;
  clock_now += 1000;
  EXPECT_EQ(type_of(on(100)), "");
  EXPECT_EQ(type_of(on(101)), "");
  EXPECT_EQ(type_of(on(102)), "ext4");
  mapping = place("ext4");
  mapping->block = {"dm-0", "device-mapper", "", 512, {"sdc"}, false};
  places_.keep(on(100), mapping);
  EXPECT_EQ(places_.find(on(100))->block.members, std::vector<std::string>{"sdc"});
}

TEST_F(KnownPlaces, AreThoseOfTheLatestMountsWhereThereAreMany) {
  for (std::uint64_t mount = 0; mount < 200; ++mount) places_.keep(on(mount), place("ext4"));
  EXPECT_EQ(type_of(on(199)), "ext4");
  EXPECT_EQ(type_of(on(150)), "ext4");
  EXPECT_EQ(type_of(on(0)), "");
}

TEST_F(KnownPlaces, ServeManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (std::uint64_t mount = 0; mount < 4; ++mount) {
    threads.emplace_back([this, mount] {
      for (std::uint64_t i = 0; i < 500; ++i) {
        const Descriptor descriptor = on(mount + i % 90);
        if (const auto found = places_.find(descriptor)) {
          EXPECT_EQ(found->type.name, "ext4");
        } else {
          places_.keep(descriptor, place("ext4"));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A kernel that gives the numbers of mounts anew. The files are real ones: statfs is asked of them.
class PlacesOfAnOlderKernel : public KnownPlaces {
 protected:
  static Descriptor old(int fd, dev_t device = makedev(8, 1)) {
    Descriptor descriptor = on(0, device);
    descriptor.fd = fd;
    descriptor.unique_mount.reset();
    descriptor.mount_id = 20;
    return descriptor;
  }

  const UniqueFd memory_{::memfd_create("place", MFD_CLOEXEC)};
  const UniqueFd other_{::open("/proc/self/status", O_RDONLY | O_CLOEXEC)};
};

TEST_F(PlacesOfAnOlderKernel, AreKnownForAMoment) {
  places_.keep(old(memory_.get()), place("ext4"));
  EXPECT_EQ(type_of(old(memory_.get())), "ext4");
  clock_now += 999;
  EXPECT_EQ(type_of(old(memory_.get())), "ext4");
  clock_now += 1;
  EXPECT_EQ(type_of(old(memory_.get())), "");
}

TEST_F(PlacesOfAnOlderKernel, AreNotThoseOfAnotherFileSystemWithTheSameNumbers) {
  places_.keep(old(memory_.get()), place("ext4"));
  EXPECT_EQ(type_of(old(other_.get())), "");
}

TEST_F(PlacesOfAnOlderKernel, AreAskedForEachTimeWhereNoBlockDeviceLiesBelow) {
  places_.keep(old(memory_.get(), makedev(0, 30)), place("nfs"));
  EXPECT_EQ(type_of(old(memory_.get(), makedev(0, 30))), "");
}

TEST_F(PlacesOfAnOlderKernel, AreAskedForEachTimeWhereMountsHaveNoNumber) {
  Descriptor descriptor = old(memory_.get());
  descriptor.mount_id.reset();
  places_.keep(descriptor, place("ext4"));
  EXPECT_EQ(type_of(descriptor), "");
}

// A real file, and a tree that says what its mount is.
class FileOfAKnownPlace : public testing::Test {
 protected:
  void say(const std::string& type, const std::string& point, const std::string& options) {
    tree_.file("/proc/self/mountinfo",
               std::to_string(number_) + " 1 0:99 / " + point + " " + options + " - " + type + " none rw\n");
  }

  const UniqueFd fd_{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  const std::uint64_t number_ = ask(fd_.get()).mount_id.value_or(0);
  Tree tree_;
  Locations places_;
};

TEST_F(FileOfAKnownPlace, IsNotAskedForItAgain) {
  if (number_ == 0) GTEST_SKIP() << "this kernel does not number mounts";
  say("ext4", "/data", "rw");
  EXPECT_EQ(of_file(fd_.get(), tree_.root(), places_).file_system_name, "ext4");
  say("xfs", "/data", "rw");
  EXPECT_EQ(of_file(fd_.get(), tree_.root(), places_).file_system_name, "ext4");
  EXPECT_EQ(of_file(fd_.get(), tree_.root()).file_system_name, "xfs");
}

TEST_F(FileOfAKnownPlace, IsAskedForItAgainWhereItWasNotListed) {
  if (number_ == 0) GTEST_SKIP() << "this kernel does not number mounts";
  EXPECT_EQ(of_file(fd_.get(), tree_.root(), places_).mount_point, "");
  say("xfs", "/data", "rw");
  EXPECT_EQ(of_file(fd_.get(), tree_.root(), places_).mount_point, "/data");
}

TEST_F(FileOfAKnownPlace, IsDescribedAsItIsNow) {
  if (number_ == 0) GTEST_SKIP() << "this kernel does not number mounts";
  say("ext4", "/data", "rw");
  const FileFacts registered = of_file(fd_.get(), tree_.root(), places_);
  EXPECT_EQ(describe_now(fd_.get(), registered, tree_.root()).find("ext4 on /data"), 0U);
  say("ext4", "/moved", "ro");
  EXPECT_EQ(describe_now(fd_.get(), registered, tree_.root()).find("ext4 on /moved"), 0U);
}

TEST_F(FileOfAKnownPlace, IsDescribedAsItWasWhereItsDescriptorIsGoneOrAnothersByNow) {
  say("ext4", "/data", "rw");
  UniqueFd fd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  const FileFacts registered = of_file(fd.get(), tree_.root());
  say("ext4", "/moved", "rw");
  const int number = fd.get();
  fd.reset();
  EXPECT_EQ(describe_now(number, registered, tree_.root()), describe(registered));
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  EXPECT_EQ(describe_now(other.get(), registered, tree_.root()), describe(registered));
}

TEST_F(FileOfAKnownPlace, OpensItsOwnWay) {
  const UniqueFd memory(::memfd_create("own", MFD_CLOEXEC));
  const UniqueFd reader(::open(("/proc/self/fd/" + std::to_string(memory.get())).c_str(), O_RDONLY | O_DSYNC));
  EXPECT_EQ(of_file(memory.get(), Root{}, places_).access, Access::read_write);
  const FileFacts facts = of_file(reader.get(), Root{}, places_);
  EXPECT_EQ(facts.access, Access::read_only);
  EXPECT_EQ(facts.sync_flags, O_DSYNC);
  EXPECT_EQ(facts.file_system, FileSystem::memory);
}

}  // namespace
}  // namespace sluice::facts
