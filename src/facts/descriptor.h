// SPDX-License-Identifier: Apache-2.0
// What system calls on a descriptor tell, before any file of procfs or sysfs is read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "facts/file.h"
#include "facts/mount.h"
#include "facts/root.h"

namespace sluice::facts {

struct Descriptor {
  int fd = -1;        // for messages, and to find /proc/self/fdinfo/FD
  int flags = 0;      // F_GETFL
  mode_t mode = 0;    // type and permissions
  dev_t device = 0;   // st_dev
  dev_t special = 0;  // st_rdev: the number of a device node
  ino_t inode = 0;
  std::optional<std::uint64_t> mount_id;      // as mountinfo has it; given to another mount when this one is gone
  std::optional<std::uint64_t> unique_mount;  // given to no other one (Linux 6.8)
  std::uint32_t memory_alignment = 0;         // of direct I/O; 0 where the kernel does not say
  std::uint32_t offset_alignment = 0;
  bool direct_is_copied = false;  // the kernel says that it serves O_DIRECT by the CPU
};

// The kernel answers one of the two numbers of a mount at a time.
enum class MountNumber : std::uint8_t {
  listed,
  unique,  // the listed one where the kernel has no other
};

// Throws base::Failure(CU_FILE_INVALID_VALUE) for a number that is no open descriptor.
Descriptor ask(int fd, MountNumber number = MountNumber::listed);

// The rules of cuFileHandleRegister that need no more than this. Throws base::Failure with
// CU_FILE_INVALID_FILE_TYPE or CU_FILE_INVALID_FILE_OPEN_FLAG; the type is judged first.
void require_usable(const Descriptor& descriptor);

// The mount it lives on, by the id that statx gives, else by the one in /proc/self/fdinfo, else by its device. Nothing
// where mountinfo is not there or does not list it.
std::optional<Mount> mount_of(const Descriptor& descriptor, const Root& root);

// statfs's f_type, 0 where it does not answer. Network file systems ask their server for it: only for files whose
// mount is not listed.
std::uint64_t magic_of(int fd) noexcept;

// Everything known, put together. `magic` counts only where there is no mount.
// Throws base::Failure(CU_FILE_IO_NOT_SUPPORTED) for pseudo file systems.
FileFacts assemble(const Descriptor& descriptor, const std::optional<Mount>& mount, std::uint64_t magic,
                   const Root& root);
struct Location;
FileFacts assemble(const Descriptor& descriptor, const Location& place);

}  // namespace sluice::facts
