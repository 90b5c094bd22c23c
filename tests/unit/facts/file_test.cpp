// SPDX-License-Identifier: Apache-2.0
// What is true of a file: put together from a laid-out tree, and asked of the machine's own files.
#include "facts/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "base/failure.h"
#include "base/unique_fd.h"
#include "cufile.h"
#include "facts/descriptor.h"
#include "facts/tree.h"

namespace sluice::facts {
namespace {

using base::Failure;
using base::UniqueFd;
using testing::HasSubstr;

constexpr std::uint64_t no_magic = 0;

Descriptor file_on(dev_t device) {
  Descriptor descriptor;
  descriptor.fd = 5;
  descriptor.mode = S_IFREG | 0644;
  descriptor.flags = O_RDWR;
  descriptor.device = device;
  descriptor.inode = 77;
  return descriptor;
}

Mount mount_of_type(const char* type, dev_t device, const char* source) {
  Mount mount;
  mount.id = 40;
  mount.device = device;
  mount.root = "/";
  mount.point = "/data";
  mount.options = "rw,relatime";
  mount.type = type;
  mount.source = source;
  return mount;
}

Tree& add_drive(Tree& tree, int logical_block = 512) {
  const std::string disk = "devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";
  tree.file("/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/transport", "pcie\n")
      .disk(disk, "259:0", logical_block)
      .link("/sys/" + disk + "/device", "../../nvme0")
      .partition(disk, "nvme0n1p1", "259:1");
  return tree;
}

TEST(Assemble, DescribesAFileOnADrive) {
  Tree tree;
  add_drive(tree);
  const FileFacts facts = assemble(file_on(makedev(259, 1)), mount_of_type("ext4", makedev(259, 1), "/dev/nvme0n1p1"),
                                   no_magic, tree.root());
  EXPECT_EQ(facts.kind, FileKind::regular);
  EXPECT_EQ(facts.file_system, FileSystem::ext4);
  EXPECT_EQ(facts.file_system_name, "ext4");
  EXPECT_EQ(facts.mount_point, "/data");
  EXPECT_EQ(facts.access, Access::read_write);
  EXPECT_EQ(facts.device, makedev(259, 1));
  EXPECT_EQ(facts.inode, 77u);
  EXPECT_EQ(facts.block.name, "nvme0n1");
  EXPECT_EQ(describe(facts), "ext4 on /data (nvme0n1, nvme, pcie)");
}

TEST(Assemble, ReadsTheOpenFlags) {
  const Tree tree;
  const auto with = [&tree](int flags) {
    Descriptor descriptor = file_on(0);
    descriptor.flags = flags;
    return assemble(descriptor, std::nullopt, no_magic, tree.root());
  };
  EXPECT_EQ(with(O_RDONLY).access, Access::read_only);
  EXPECT_EQ(with(O_WRONLY).access, Access::write_only);
  EXPECT_EQ(with(O_RDWR).access, Access::read_write);
  EXPECT_FALSE(with(O_RDWR).direct);
  EXPECT_TRUE(with(O_RDWR | O_DIRECT).direct);
  EXPECT_EQ(with(O_RDWR | O_DIRECT).sync_flags, 0);
  EXPECT_EQ(with(O_RDWR | O_SYNC).sync_flags, O_SYNC);
  EXPECT_EQ(with(O_RDWR | O_DSYNC).sync_flags, O_DSYNC);
}

TEST(Assemble, KeepsThatODirectIsACopy) {
  const Tree tree;
  Descriptor descriptor = file_on(0);
  EXPECT_FALSE(assemble(descriptor, std::nullopt, no_magic, tree.root()).direct_is_copied);
  descriptor.direct_is_copied = true;
  EXPECT_TRUE(assemble(descriptor, std::nullopt, no_magic, tree.root()).direct_is_copied);
}

TEST(Assemble, FindsTheDriveBelowABtrfsSubvolume) {
  Tree tree;
  add_drive(tree);
  const FileFacts facts = assemble(file_on(makedev(0, 45)), mount_of_type("btrfs", makedev(0, 44), "/dev/nvme0n1p1"),
                                   no_magic, tree.root());
  EXPECT_EQ(facts.file_system, FileSystem::btrfs);
  EXPECT_EQ(facts.block.name, "nvme0n1");
}

TEST(Assemble, LeavesTheBlockDeviceOfAnOverlayOpen) {
  Tree tree;
  add_drive(tree);
  const FileFacts facts =
      assemble(file_on(makedev(0, 50)), mount_of_type("overlay", makedev(0, 50), "overlay"), no_magic, tree.root());
  EXPECT_EQ(facts.file_system, FileSystem::stacked);
  EXPECT_EQ(facts.block.name, "");
  EXPECT_EQ(describe(facts), "overlay on /data");
}

TEST(Assemble, KnowsTheFileSystemByItsNumberWhereNoMountIsListed) {
  const Tree tree;
  const FileFacts facts = assemble(file_on(makedev(0, 1)), std::nullopt, 0x01021994, tree.root());
  EXPECT_EQ(facts.file_system, FileSystem::memory);
  EXPECT_EQ(facts.file_system_name, "tmpfs");
  EXPECT_EQ(facts.mount_point, "");
  EXPECT_EQ(describe(facts), "tmpfs");
}

TEST(Assemble, ComesToAnAnswerWhenNothingIsKnown) {
  const Tree tree;
  const FileFacts facts = assemble(file_on(makedev(8, 1)), std::nullopt, no_magic, tree.root());
  EXPECT_EQ(facts.file_system, FileSystem::other);
  EXPECT_EQ(facts.block.name, "");
  EXPECT_EQ(describe(facts), "unknown file system");
}

TEST(Assemble, RefusesWhatTheKernelMakesUp) {
  const Tree tree;
  for (const char* type : {"proc", "sysfs", "cgroup2", "debugfs"}) {
    try {
      assemble(file_on(makedev(0, 21)), mount_of_type(type, makedev(0, 21), type), no_magic, tree.root());
      ADD_FAILURE() << type << " was taken";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), CU_FILE_HANDLE_NOT_REGISTERED);
      EXPECT_THAT(failure.sentence(), HasSubstr(type));
      EXPECT_THAT(failure.sentence(), HasSubstr("copy it"));
    }
  }
  EXPECT_THROW(assemble(file_on(makedev(0, 21)), std::nullopt, 0x9FA0, tree.root()), Failure);
}

TEST(Assemble, DescribesARawBlockDeviceByItsOwnNumber) {
  Tree tree;
  add_drive(tree, 4096);
  Descriptor descriptor = file_on(makedev(0, 6));
  descriptor.mode = S_IFBLK | 0660;
  descriptor.special = makedev(259, 0);
  const FileFacts facts = assemble(descriptor, std::nullopt, no_magic, tree.root());
  EXPECT_EQ(facts.kind, FileKind::block_device);
  EXPECT_EQ(facts.file_system, FileSystem::none);
  EXPECT_EQ(facts.block.name, "nvme0n1");
  EXPECT_EQ(describe(facts), "block device nvme0n1 (nvme, pcie)");

  descriptor.special = makedev(7, 99);
  EXPECT_EQ(describe(assemble(descriptor, std::nullopt, no_magic, tree.root())),
            "block device that sysfs does not know");
}

TEST(Assemble, TakesTheKernelsWordOnAlignment) {
  Tree tree;
  add_drive(tree);
  Descriptor descriptor = file_on(makedev(259, 1));
  descriptor.memory_alignment = 4;
  descriptor.offset_alignment = 512;
  const FileFacts facts =
      assemble(descriptor, mount_of_type("xfs", makedev(259, 1), "/dev/nvme0n1p1"), no_magic, tree.root());
  EXPECT_EQ(facts.memory_alignment, 4u);
  EXPECT_EQ(facts.offset_alignment, 512u);
}

// What does not fit into a staging place is refused by the file system, and read and written without O_DIRECT.
TEST(Assemble, AsksForNoBlocksThatStagingMemoryHasNoRoomFor) {
  Tree tree;
  add_drive(tree);
  Descriptor descriptor = file_on(makedev(259, 1));
  descriptor.offset_alignment = 8 << 20;
  const FileFacts facts =
      assemble(descriptor, mount_of_type("xfs", makedev(259, 1), "/dev/nvme0n1p1"), no_magic, tree.root());
  EXPECT_EQ(facts.offset_alignment, 65536u);
}

TEST(Assemble, AssumesWholePagesWhereTheKernelIsSilent) {
  Tree tree;
  add_drive(tree, 512);
  const FileFacts facts = assemble(file_on(makedev(259, 1)), mount_of_type("ext4", makedev(259, 1), "/dev/nvme0n1p1"),
                                   no_magic, tree.root());
  EXPECT_EQ(facts.memory_alignment, 4096u);
  EXPECT_EQ(facts.offset_alignment, 4096u);
}

TEST(Assemble, AssumesWholeBlocksWhereTheyAreLargerThanPages) {
  Tree tree;
  add_drive(tree, 16384);
  const FileFacts facts = assemble(file_on(makedev(259, 1)), mount_of_type("xfs", makedev(259, 1), "/dev/nvme0n1p1"),
                                   no_magic, tree.root());
  EXPECT_EQ(facts.memory_alignment, 16384u);
  EXPECT_EQ(facts.offset_alignment, 16384u);
}

TEST(Assemble, KnowsFileSystemsThatTakeAnyAlignment) {
  const Tree tree;
  for (const char* type : {"tmpfs", "nfs", "nfs4"}) {
    const FileFacts facts =
        assemble(file_on(makedev(0, 60)), mount_of_type(type, makedev(0, 60), "x"), no_magic, tree.root());
    EXPECT_EQ(facts.memory_alignment, 1u) << type;
    EXPECT_EQ(facts.offset_alignment, 1u) << type;
  }
}

TEST(Describe, NamesTheDisksBelowAMapping) {
  FileFacts facts;
  facts.file_system_name = "xfs";
  facts.mount_point = "/srv";
  facts.block.name = "dm-0";
  facts.block.driver = "device-mapper";
  facts.block.members = {"sda", "sdb"};
  EXPECT_EQ(describe(facts), "xfs on /srv (dm-0, device-mapper, over sda+sdb)");
  facts.block.members = {"sda", "sdb", "sdc", "sdd", "sde", "sdf"};
  EXPECT_EQ(describe(facts), "xfs on /srv (dm-0, device-mapper, over sda+sdb+sdc+sdd and 2 more)");
}

TEST(Describe, StaysOneLine) {
  FileFacts facts;
  facts.file_system_name = "ext4";
  facts.mount_point = "/a\nb\tc";
  EXPECT_EQ(describe(facts), "ext4 on /a?b?c");
}

TEST(OfFile, KnowsAMemfd) {
  const UniqueFd fd(::memfd_create("memory", MFD_CLOEXEC));
  const FileFacts facts = of_file(fd.get(), Root());
  EXPECT_EQ(facts.file_system, FileSystem::memory);
  EXPECT_EQ(facts.access, Access::read_write);
  EXPECT_EQ(facts.block.name, "");
}

// A file in the folder for temporary ones, whatever file system that is.
class TemporaryFile : public testing::Test {
 protected:
  UniqueFd open_new(int flags) {
    name_ = (std::filesystem::temp_directory_path() / "sluice-facts-XXXXXX").string();
    UniqueFd created(::mkostemp(name_.data(), O_CLOEXEC));
    return UniqueFd(::open(name_.c_str(), flags | O_CLOEXEC));
  }
  void unlink() {
    if (!name_.empty()) ::unlink(name_.c_str());
    name_.clear();
  }
  void TearDown() override { unlink(); }

  std::string name_;
};

TEST_F(TemporaryFile, HasTheIdentityThatFstatTells) {
  const UniqueFd fd = open_new(O_RDWR);
  ASSERT_TRUE(fd);
  struct stat status {};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  const FileFacts facts = of_file(fd.get(), Root());
  EXPECT_EQ(facts.device, status.st_dev);
  EXPECT_EQ(facts.inode, status.st_ino);
  EXPECT_NE(facts.file_system_name, "");
  EXPECT_NE(facts.mount_point, "");
}

TEST_F(TemporaryFile, IsTheSameWithAndWithoutItsName) {
  const UniqueFd fd = open_new(O_RDWR);
  ASSERT_TRUE(fd);
  const std::string named = describe(of_file(fd.get(), Root()));
  unlink();
  EXPECT_EQ(describe(of_file(fd.get(), Root())), named);
}

TEST_F(TemporaryFile, NeverHadANameWithTmpfile) {
  const UniqueFd fd(::open(std::filesystem::temp_directory_path().c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (!fd) GTEST_SKIP() << "the folder for temporary files knows no O_TMPFILE";
  EXPECT_EQ(of_file(fd.get(), Root()).kind, FileKind::regular);
}

TEST_F(TemporaryFile, WorksWithoutProcfsAndSysfs) {
  const UniqueFd fd = open_new(O_RDWR);
  ASSERT_TRUE(fd);
  const Tree nothing;
  const FileFacts facts = of_file(fd.get(), nothing.root());
  EXPECT_EQ(facts.mount_point, "");
  EXPECT_EQ(facts.block.name, "");
  EXPECT_NE(facts.file_system_name, "");
}

TEST_F(TemporaryFile, IsRefusedWithAppendOrNonblock) {
  for (const int flag : {O_APPEND, O_NONBLOCK, O_NOFOLLOW}) {
    const UniqueFd fd = open_new(O_RDWR | flag);
    ASSERT_TRUE(fd);
    try {
      of_file(fd.get(), Root());
      ADD_FAILURE() << "taken with " << std::oct << flag;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), CU_FILE_INVALID_FILE_OPEN_FLAG);
    }
    unlink();
  }
}

TEST(OfFile, RefusesWhatIsNoFile) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(::pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  const UniqueFd read_end(pipe_ends[0]);
  const UniqueFd write_end(pipe_ends[1]);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd folder(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  for (const UniqueFd* fd : {&read_end, &write_end, &socket, &folder, &null, &zero, &event}) {
    ASSERT_TRUE(*fd);
    try {
      of_file(fd->get(), Root());
      ADD_FAILURE() << "descriptor " << fd->get() << " was taken";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), CU_FILE_INVALID_FILE_TYPE) << failure.sentence();
    }
  }
}

TEST(OfFile, RefusesFilesOfProcfs) {
  const UniqueFd fd(::open("/proc/version", O_RDONLY | O_CLOEXEC));
  if (!fd) GTEST_SKIP() << "no procfs here";
  const Tree nothing;
  for (const Root& root : {Root(), nothing.root()}) {
    try {
      of_file(fd.get(), root);
      ADD_FAILURE() << "taken";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), CU_FILE_HANDLE_NOT_REGISTERED) << failure.sentence();
    }
  }
}

}  // namespace
}  // namespace sluice::facts
