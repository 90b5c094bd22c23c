// SPDX-License-Identifier: Apache-2.0
// The system calls, and what cuFile refuses because of them.
#include "facts/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/failure.h"
#include "facts/read.h"

namespace sluice::facts {

namespace {

using base::Failure;

std::string name_of(int fd) {
  return "descriptor " + std::to_string(fd);
}

Failure not_open(int fd, int error) {
  return {CU_FILE_INVALID_VALUE, name_of(fd) + " is not open; register a descriptor that open() returned", error};
}

void fill_from_stat(Descriptor& descriptor) {
  struct stat status {};
  if (::fstat(descriptor.fd, &status) != 0) throw not_open(descriptor.fd, errno);
  descriptor.mode = status.st_mode;
  descriptor.device = status.st_dev;
  descriptor.special = status.st_rdev;
  descriptor.inode = status.st_ino;
}

// Of Linux 6.8; headers may be older. A kernel that does not know it answers as if it had not been asked.
constexpr unsigned statx_unique_mount = 0x4000;

// Without a sync: attributes that a network file system has cached will do, and a dead server is not waited for.
bool fill_from_statx(Descriptor& descriptor, MountNumber number) {
  unsigned wanted = STATX_BASIC_STATS;
  if (number == MountNumber::unique) wanted |= statx_unique_mount;
#ifdef STATX_MNT_ID
  wanted |= STATX_MNT_ID;
#endif
#ifdef STATX_DIOALIGN
  wanted |= STATX_DIOALIGN;
#endif
  struct statx status {};
  if (::statx(descriptor.fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, wanted, &status) != 0) return false;
  descriptor.mode = status.stx_mode;
  descriptor.device = makedev(status.stx_dev_major, status.stx_dev_minor);
  descriptor.special = makedev(status.stx_rdev_major, status.stx_rdev_minor);
  descriptor.inode = status.stx_ino;
#ifdef STATX_MNT_ID
  if ((status.stx_mask & STATX_MNT_ID) != 0) descriptor.mount_id = status.stx_mnt_id;
  if ((status.stx_mask & statx_unique_mount) != 0) descriptor.unique_mount = status.stx_mnt_id;
#endif
#ifdef STATX_DIOALIGN
  if ((status.stx_mask & STATX_DIOALIGN) != 0) {
    descriptor.memory_alignment = status.stx_dio_mem_align;
    descriptor.offset_alignment = status.stx_dio_offset_align;
    descriptor.direct_is_copied = status.stx_dio_offset_align == 0;
  }
#endif
#ifdef STATX_ATTR_DAX
  if ((status.stx_attributes & STATX_ATTR_DAX) != 0) descriptor.direct_is_copied = true;
#endif
  return true;
}

const char* type_name(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
      return "a character device";
    case S_IFLNK:
      return "a symbolic link";
    default:
      return "an object of the kernel without a file";
  }
}

struct RefusedFlag {
  int flag;
  const char* name;
  const char* why;
};

// What cuFile's documentation refuses and F_GETFL still shows. O_NOCTTY is gone once a file is open. O_DIRECTORY on
// a regular file can only be the lower half of O_TMPFILE: such a file is an ordinary one without a name, as good as
// one that was unlinked after open(), so it is taken.
constexpr std::array refused_flags = {
    RefusedFlag{O_APPEND, "O_APPEND", "every write would go to the end of the file whatever its offset"},
    RefusedFlag{O_NONBLOCK, "O_NONBLOCK", "cuFile's transfers wait for their bytes"},
    RefusedFlag{O_NOFOLLOW, "O_NOFOLLOW", "cuFile's contract excludes it"},
};

}  // namespace

Descriptor ask(int fd, MountNumber number) {
  Descriptor descriptor;
  descriptor.fd = fd;
  // First, because it knows descriptors only: statx takes AT_FDCWD for the current folder.
  descriptor.flags = ::fcntl(fd, F_GETFL);
  if (descriptor.flags < 0) throw not_open(fd, errno);
  if (!fill_from_statx(descriptor, number)) fill_from_stat(descriptor);
  return descriptor;
}

void require_usable(const Descriptor& descriptor) {
  const mode_t type = descriptor.mode & S_IFMT;
  if (type != S_IFREG && type != S_IFBLK) {
    throw Failure(CU_FILE_INVALID_FILE_TYPE, name_of(descriptor.fd) + " is " + type_name(descriptor.mode) +
                                                 "; cuFile moves bytes of regular files and block devices only");
  }
  for (const RefusedFlag& refused : refused_flags) {
    if ((descriptor.flags & refused.flag) == 0) continue;
    throw Failure(CU_FILE_INVALID_FILE_OPEN_FLAG, name_of(descriptor.fd) + " was opened with " + refused.name + ": " +
                                                      refused.why + "; open the file without " + refused.name);
  }
  if ((descriptor.flags & O_ACCMODE) == O_ACCMODE) {
    throw Failure(CU_FILE_INVALID_FILE_OPEN_FLAG,
                  name_of(descriptor.fd) +
                      " was opened neither for reading nor for writing; open it O_RDONLY, O_WRONLY or O_RDWR");
  }
}

std::optional<Mount> mount_of(const Descriptor& descriptor, const Root& root) {
  const std::optional<std::string> mountinfo = read_text(root.at("/proc/self/mountinfo"));
  if (!mountinfo) return std::nullopt;
  std::optional<std::uint64_t> id = descriptor.mount_id;
  if (!id) {
    const std::optional<std::string> fdinfo = read_text(root.at("/proc/self/fdinfo/" + std::to_string(descriptor.fd)));
    if (fdinfo) id = mount_id_in_fdinfo(*fdinfo);
  }
  return find_mount(*mountinfo, id, descriptor.device);
}

std::uint64_t magic_of(int fd) noexcept {
  struct statfs status {};
  if (::fstatfs(fd, &status) != 0) return 0;
  // f_type is signed and 32 bits of it count: btrfs and others have the highest one set.
  return static_cast<std::uint32_t>(status.f_type);
}

}  // namespace sluice::facts
