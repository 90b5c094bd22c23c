// Putting together what is true of a file.
#include "facts/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "base/failure.h"
#include "facts/block.h"
#include "facts/descriptor.h"
#include "facts/file_system.h"
#include "facts/mount.h"

namespace sluice::facts {

namespace {

Access access_in(int flags) {
  switch (flags & O_ACCMODE) {
    case O_WRONLY:
      return Access::write_only;
    case O_RDWR:
      return Access::read_write;
    default:
      return Access::read_only;
  }
}

FileSystemType type_of(const std::optional<Mount>& mount, std::uint64_t magic) {
  if (mount) return file_system_named(mount->type);
  if (magic != 0) return file_system_with_magic(magic);
  return {};
}

// The block device below a file of a mounted file system. btrfs and overlayfs give their files numbers of their own,
// which no block device has; the mount's number and its source still know.
BlockFacts block_below(const Descriptor& descriptor, const std::optional<Mount>& mount, const Root& root) {
  BlockFacts block = block_with_number(descriptor.device, root);
  if (block.name.empty() && mount) block = block_with_number(mount->device, root);
  if (block.name.empty() && mount) block = block_of_source(mount->source, root);
  return block;
}

// The kernel's own word counts. Where it has none: files in memory and on NFS take any address and length, everything
// else gets whole pages, or whole blocks where those are larger.
void settle_alignment(FileFacts& facts, const Descriptor& descriptor) {
  const bool takes_any =
      facts.file_system == FileSystem::memory || facts.file_system_name == "nfs" || facts.file_system_name == "nfs4";
  const std::uint32_t usual = takes_any ? 1 : std::max<std::uint32_t>(4096, facts.block.logical_block);
  facts.memory_alignment = descriptor.memory_alignment != 0 ? descriptor.memory_alignment : usual;
  // Staging memory has room for blocks up to here. Where a file system wants more (XFS of files that share extents on a
  // realtime device), it refuses what we ask of O_DIRECT, and the buffered description does it.
  constexpr std::uint32_t largest = 65536;
  facts.offset_alignment = descriptor.offset_alignment != 0 ? std::min(descriptor.offset_alignment, largest) : usual;
}

// A mount point may hold any byte but '/' and NUL; a line stays one line.
std::string printable(std::string_view text) {
  std::string line;
  for (const char character : text) line += static_cast<unsigned char>(character) < ' ' ? '?' : character;
  return line;
}

std::string joined(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!text.empty()) text += ", ";
    text += part;
  }
  return text;
}

std::string members_of(const BlockFacts& block) {
  constexpr std::size_t shown = 4;
  std::string text;
  for (std::size_t member = 0; member < block.members.size() && member < shown; ++member) {
    text += (member == 0 ? "over " : "+") + block.members[member];
  }
  if (block.members.size() > shown) text += " and " + std::to_string(block.members.size() - shown) + " more";
  return text;
}

}  // namespace

FileFacts assemble(const Descriptor& descriptor, const std::optional<Mount>& mount, std::uint64_t magic,
                   const Root& root) {
  FileFacts facts;
  facts.access = access_in(descriptor.flags);
  facts.direct = (descriptor.flags & O_DIRECT) != 0;
  facts.direct_is_copied = descriptor.direct_is_copied;
  // O_SYNC contains O_DSYNC's bit.
  facts.synchronous = (descriptor.flags & O_DSYNC) != 0;
  facts.device = descriptor.device;
  facts.inode = descriptor.inode;

  if (S_ISBLK(descriptor.mode)) {
    // Where the node lies says nothing about the device: no mount.
    facts.kind = FileKind::block_device;
    facts.file_system = FileSystem::none;
    facts.block = block_with_number(descriptor.special, root);
  } else {
    FileSystemType type = type_of(mount, magic);
    if (type.substance == Substance::pseudo) {
      throw base::Failure(CU_FILE_IO_NOT_SUPPORTED,
                          "descriptor " + std::to_string(descriptor.fd) + " is a file of " + type.name +
                              ", which the kernel makes up as it is read; copy it to a file system that stores data");
    }
    facts.file_system = type.file_system;
    facts.file_system_name = std::move(type.name);
    if (mount) {
      facts.mount_point = mount->point;
      facts.mount_options = mount->options;
    }
    facts.block = block_below(descriptor, mount, root);
  }
  settle_alignment(facts, descriptor);
  return facts;
}

FileFacts of_file(int fd, const Root& root) {
  const Descriptor descriptor = ask(fd);
  require_usable(descriptor);
  if (S_ISBLK(descriptor.mode)) return assemble(descriptor, std::nullopt, 0, root);
  const std::optional<Mount> mount = mount_of(descriptor, root);
  return assemble(descriptor, mount, mount ? 0 : magic_of(fd), root);
}

std::string describe(const FileFacts& facts) {
  if (facts.kind == FileKind::block_device) {
    if (facts.block.name.empty()) return "block device that sysfs does not know";
    const std::string about = joined({facts.block.driver, facts.block.transport, members_of(facts.block)});
    return "block device " + facts.block.name + (about.empty() ? "" : " (" + about + ")");
  }
  std::string line = facts.file_system_name.empty() ? "unknown file system" : printable(facts.file_system_name);
  if (!facts.mount_point.empty()) line += " on " + printable(facts.mount_point);
  const std::string about =
      joined({facts.block.name, facts.block.driver, facts.block.transport, members_of(facts.block)});
  return line + (about.empty() ? "" : " (" + about + ")");
}

}  // namespace sluice::facts
