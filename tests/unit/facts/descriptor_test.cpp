// SPDX-License-Identifier: Apache-2.0
// What system calls tell of a descriptor, and what is refused because of it.
#include "facts/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string>

#include "base/failure.h"
#include "base/unique_fd.h"
#include "cufile.h"
#include "facts/tree.h"

namespace sluice::facts {
namespace {

using base::Failure;
using base::UniqueFd;

Descriptor regular(int flags) {
  Descriptor descriptor;
  descriptor.fd = 5;
  descriptor.mode = S_IFREG | 0644;
  descriptor.flags = flags;
  return descriptor;
}

CUfileOpError answer(const Descriptor& descriptor) {
  try {
    require_usable(descriptor);
  } catch (const Failure& failure) {
    return failure.code();
  }
  return CU_FILE_SUCCESS;
}

std::string sentence(const Descriptor& descriptor) {
  try {
    require_usable(descriptor);
  } catch (const Failure& failure) {
    return failure.sentence();
  }
  return "";
}

TEST(RequireUsable, TakesOrdinaryFlags) {
  // O_LARGEFILE as the kernel shows it; to programs it is 0.
#if defined(__aarch64__)
  constexpr int large_file = 0400000;
#else
  constexpr int large_file = 0100000;
#endif
  for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_DIRECT, O_WRONLY | O_DIRECT | O_SYNC, O_RDWR | O_DSYNC,
                          O_RDWR | large_file}) {
    EXPECT_EQ(answer(regular(flags)), CU_FILE_SUCCESS) << std::oct << flags;
  }
}

TEST(RequireUsable, TakesAFileWithoutAName) {
  // F_GETFL shows O_TMPFILE, and with it the bit of O_DIRECTORY.
  EXPECT_EQ(answer(regular(O_RDWR | O_TMPFILE)), CU_FILE_SUCCESS);
}

TEST(RequireUsable, RefusesTheFlagsOfTheContractAndNamesThem) {
  struct Case {
    int flag;
    const char* name;
  };
  for (const Case& refused :
       {Case{O_APPEND, "O_APPEND"}, Case{O_NONBLOCK, "O_NONBLOCK"}, Case{O_NOFOLLOW, "O_NOFOLLOW"}}) {
    const Descriptor descriptor = regular(O_RDWR | refused.flag);
    EXPECT_EQ(answer(descriptor), CU_FILE_INVALID_FILE_OPEN_FLAG) << refused.name;
    EXPECT_NE(sentence(descriptor).find(std::string("without ") + refused.name), std::string::npos)
        << sentence(descriptor);
    EXPECT_NE(sentence(descriptor).find("descriptor 5"), std::string::npos) << sentence(descriptor);
  }
}

TEST(RequireUsable, RefusesADescriptorThatNeitherReadsNorWrites) {
  EXPECT_EQ(answer(regular(O_ACCMODE)), CU_FILE_INVALID_FILE_OPEN_FLAG);
}

TEST(RequireUsable, RefusesEverythingButRegularFilesAndBlockDevices) {
  struct Case {
    mode_t type;
    const char* name;
  };
  for (const Case& refused :
       {Case{S_IFDIR, "a directory"}, Case{S_IFIFO, "a pipe"}, Case{S_IFSOCK, "a socket"},
        Case{S_IFCHR, "a character device"}, Case{S_IFLNK, "a symbolic link"}, Case{0, "without a file"}}) {
    // The type is judged before the flags.
    Descriptor descriptor = regular(O_RDONLY | O_NONBLOCK | O_APPEND);
    descriptor.mode = refused.type | 0600;
    EXPECT_EQ(answer(descriptor), CU_FILE_INVALID_FILE_TYPE) << refused.name;
    EXPECT_NE(sentence(descriptor).find(refused.name), std::string::npos) << sentence(descriptor);
  }
  Descriptor block = regular(O_RDWR);
  block.mode = S_IFBLK | 0600;
  EXPECT_EQ(answer(block), CU_FILE_SUCCESS);
}

TEST(Ask, AgreesWithFstatAndFcntl) {
  const UniqueFd fd(::memfd_create("ask", MFD_CLOEXEC));
  ASSERT_TRUE(fd);
  struct stat status {};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  const Descriptor descriptor = ask(fd.get());
  EXPECT_EQ(descriptor.fd, fd.get());
  EXPECT_EQ(descriptor.flags, ::fcntl(fd.get(), F_GETFL));
  EXPECT_EQ(descriptor.mode, status.st_mode);
  EXPECT_EQ(descriptor.device, status.st_dev);
  EXPECT_EQ(descriptor.inode, status.st_ino);
}

TEST(Ask, GivesTheNumberOfADevice) {
  const UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd);
  struct stat status {};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  EXPECT_EQ(ask(fd.get()).special, status.st_rdev);
}

TEST(Ask, RefusesWhatIsNotOpen) {
  UniqueFd closed(::memfd_create("closed", MFD_CLOEXEC));
  const int number = closed.get();
  closed.reset();
  for (const int fd : {-1, AT_FDCWD, 1 << 29, number}) {
    try {
      ask(fd);
      ADD_FAILURE() << fd << " was taken";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), CU_FILE_INVALID_VALUE) << fd;
      EXPECT_EQ(failure.cause(), EBADF) << fd;
      EXPECT_NE(failure.sentence().find("not open"), std::string::npos) << failure.sentence();
    }
  }
}

constexpr const char* two_mounts =
    "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "21 20 8:1 /home /bound rw - ext4 /dev/sda1 rw\n"
    "22 20 8:1 / /again rw - ext4 /dev/sda1 rw\n";

TEST(MountOf, GoesByTheKernelsIdThenByFdinfoThenByTheDevice) {
  Tree tree;
  tree.file("/proc/self/mountinfo", two_mounts);
  Descriptor descriptor = regular(O_RDWR);
  descriptor.device = makedev(8, 1);
  EXPECT_EQ(mount_of(descriptor, tree.root())->point, "/again");

  tree.file("/proc/self/fdinfo/5", "pos:\t0\nflags:\t02\nmnt_id:\t21\n");
  EXPECT_EQ(mount_of(descriptor, tree.root())->point, "/bound");

  descriptor.mount_id = 20;
  EXPECT_EQ(mount_of(descriptor, tree.root())->point, "/");
}

TEST(MountOf, IsNothingWithoutProcfs) {
  const Tree tree;
  EXPECT_FALSE(mount_of(regular(O_RDWR), tree.root()));
}

TEST(MagicOf, IsTheFileSystemsNumber) {
  const UniqueFd fd(::memfd_create("magic", MFD_CLOEXEC));
  EXPECT_EQ(magic_of(fd.get()), static_cast<std::uint64_t>(TMPFS_MAGIC));
  EXPECT_EQ(magic_of(-1), 0u);
}

}  // namespace
}  // namespace sluice::facts
