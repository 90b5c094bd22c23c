// SPDX-License-Identifier: Apache-2.0
// What is true of an open file: what kind of thing it is, where it lives, how it was opened. Collected once, at
// registration, by reading; no file of the user's is opened, nothing is changed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "facts/root.h"

namespace sluice::facts {

enum class FileKind : std::uint8_t { regular, block_device };

enum class FileSystem : std::uint8_t {
  none,  // a raw block device
  ext4,
  xfs,
  btrfs,
  memory,   // tmpfs, ramfs, memfd, hugetlbfs
  stacked,  // overlayfs, ecryptfs, ...
  fuse,
  network,  // nfs, lustre, cifs, ceph, 9p, ...
  other,
};

enum class Access : std::uint8_t { read_only, write_only, read_write, none };  // none: O_PATH

// The block device below a file. Empty name: there is none, or sysfs does not tell.
struct BlockFacts {
  std::string name;       // "nvme0n1", "vda", "loop3": the whole disk, not the partition
  std::string driver;     // "nvme", "virtio_blk", "loop", "device-mapper", "md", "sd", "" when unknown
  std::string transport;  // of an NVMe drive: "pcie", "tcp", "rdma", "fc", "loop"; "rdma+tcp" when its paths differ
  std::uint32_t logical_block = 0;   // bytes; 0 when unknown
  std::vector<std::string> members;  // of a mapping or array: the disks at the bottom of it, sorted
  bool over_tcp = false;             // it, or a member, is reached by NVMe/TCP
};

struct FileFacts {
  FileKind kind = FileKind::regular;
  FileSystem file_system = FileSystem::other;
  std::string file_system_name;  // as mountinfo spells it: "ext4", "fuse.sshfs"
  std::string mount_point;       // "" where it is not listed: memfd, a detached mount, no procfs
  Access access = Access::read_only;
  bool direct = false;  // opened with O_DIRECT
  // O_DIRECT is accepted on this file, and the CPU moves the bytes: ext4 with journalled, verified or inline data, DAX.
  bool direct_is_copied = false;
  int sync_flags = 0;          // of O_SYNC and O_DSYNC, those that it was opened with
  bool caller_reads = false;   // the handle came with a read operation of its own; set when it is registered
  bool caller_writes = false;  // likewise for writing
  // What O_DIRECT wants of addresses, and of offsets and lengths: 4096 bytes (or larger blocks) where the kernel does
  // not say, 1 where any will do.
  std::uint32_t memory_alignment = 4096;
  std::uint32_t offset_alignment = 4096;
  std::uint32_t cache_page = 4096;  // what the page cache holds it by
  dev_t device = 0;  // identity: st_dev and st_ino, to notice a descriptor that was closed and used again
  ino_t inode = 0;
  BlockFacts block;
};

// Throws base::Failure with the code that cuFileHandleRegister has to answer: CU_FILE_INVALID_VALUE for a descriptor
// that is not open, CU_FILE_INVALID_FILE_TYPE for what is neither a regular file nor a block device,
// CU_FILE_INVALID_FILE_OPEN_FLAG for O_APPEND, O_NONBLOCK and O_NOFOLLOW, CU_FILE_IO_NOT_SUPPORTED
// for procfs, sysfs and other pseudo files. A descriptor of O_PATH is taken; its transfers fail. A file without a name
// (unlinked, O_TMPFILE, memfd) is as good as any. Where procfs or sysfs do not tell, the fields stay empty. Waits for
// no server: attributes come from the cache, and no other file, mount or device is touched.
FileFacts of_file(int fd, const Root& root);

class Locations;
// The same, with what is known of the place already: two system calls. But for the mount point, all is as it is now.
FileFacts of_file(int fd, const Root& root, Locations& places);

// One line for people: "ext4 on /data (nvme0n1, nvme, pcie)", "xfs on /srv (dm-0, device-mapper, over sda+sdb)",
// "tmpfs on /dev/shm", "block device loop0 (loop)".
std::string describe(const FileFacts& facts);

// The same as it is now, where the descriptor is still the file's: the mount may have been moved. Else as it was
// registered.
std::string describe_now(int fd, const FileFacts& registered, const Root& root);

// The same for the same file, however often it is opened and registered; for two files different, but for bad luck.
inline std::uint64_t file_number(const FileFacts& file) noexcept {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  const std::uint64_t mixed = (static_cast<std::uint64_t>(file.device) * odd ^ file.inode) * odd;
  return mixed ^ mixed >> 32U;
}

}  // namespace sluice::facts
