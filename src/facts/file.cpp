// SPDX-License-Identifier: Apache-2.0
// Putting together what is true of a file.
#include "facts/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>

#include "base/failure.h"
#include "base/page_size.h"
#include "facts/block.h"
#include "facts/descriptor.h"
#include "facts/file_system.h"
#include "facts/location.h"
#include "facts/mount.h"

namespace sluice::facts {

namespace {

Access access_in(int flags) {
  if ((flags & O_PATH) != 0) return Access::none;
  switch (flags & O_ACCMODE) {
    case O_WRONLY:
      return Access::write_only;
    case O_RDWR:
      return Access::read_write;
    default:
      return Access::read_only;
  }
}

// The kernel's own word counts. Where it has none: files in memory and on NFS take any address and length, everything
// else gets blocks of 4096 bytes, or of its own where those are larger.
void settle_alignment(FileFacts& facts, const Descriptor& descriptor) {
  facts.cache_page = static_cast<std::uint32_t>(base::page_size());
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

bool is_same_file(const Descriptor& one, const Descriptor& other) {
  return one.device == other.device && one.inode == other.inode &&
         (!one.unique_mount || !other.unique_mount || one.unique_mount == other.unique_mount);
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

FileFacts assemble(const Descriptor& descriptor, const Location& place) {
  FileFacts facts;
  facts.access = access_in(descriptor.flags);
  facts.direct = (descriptor.flags & O_DIRECT) != 0;
  facts.direct_is_copied = descriptor.direct_is_copied;
  facts.sync_flags = descriptor.flags & (O_SYNC | O_DSYNC);
  facts.device = descriptor.device;
  facts.inode = descriptor.inode;
  facts.block = place.block;
  if (S_ISBLK(descriptor.mode)) {
    facts.kind = FileKind::block_device;
    facts.file_system = FileSystem::none;
  } else {
    if (place.type.substance == Substance::pseudo) {
      throw base::Failure(CU_FILE_HANDLE_NOT_REGISTERED,
                          "descriptor " + std::to_string(descriptor.fd) + " is a file of " + place.type.name +
                              ", which the kernel makes up as it is read; copy it to a file system that stores data");
    }
    facts.file_system = place.type.file_system;
    facts.file_system_name = place.type.name;
    facts.mount_point = place.mount_point;
  }
  settle_alignment(facts, descriptor);
  return facts;
}

FileFacts assemble(const Descriptor& descriptor, const std::optional<Mount>& mount, std::uint64_t magic,
                   const Root& root) {
  // Where the node of a block device lies says nothing about the device: no mount.
  if (S_ISBLK(descriptor.mode))
    return assemble(descriptor,
                    Location{.type = {}, .mount_point = {}, .block = block_with_number(descriptor.special, root)});
  return assemble(descriptor, place_of(descriptor, mount, magic, root));
}

FileFacts of_file(int fd, const Root& root) {
  const Descriptor descriptor = ask(fd);
  require_usable(descriptor);
  if (S_ISBLK(descriptor.mode)) return assemble(descriptor, std::nullopt, 0, root);
  const std::optional<Mount> mount = mount_of(descriptor, root);
  return assemble(descriptor, mount, mount ? 0 : magic_of(fd), root);
}

FileFacts of_file(int fd, const Root& root, Locations& places) {
  const Descriptor first = ask(fd, MountNumber::unique);
  require_usable(first);
  if (S_ISBLK(first.mode)) return assemble(first, std::nullopt, 0, root);
  if (const auto known = places.find(first)) return assemble(first, *known);

  // The mount stays as long as the file is open: what is the same before and after was the same meanwhile.
  const Descriptor listed = first.unique_mount ? ask(fd) : first;
  const std::optional<Mount> mount = mount_of(listed, root);
  const auto place = std::make_shared<const Location>(place_of(listed, mount, mount ? 0 : magic_of(fd), root));
  if (mount && mount->id == listed.mount_id && is_same_file(listed, first) &&
      is_same_file(ask(fd, MountNumber::unique), first)) {
    places.keep(first, place);
  }
  return assemble(listed, *place);
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

std::string describe_now(int fd, const FileFacts& registered, const Root& root) {
  try {
    const FileFacts now = of_file(fd, root);
    if (now.device == registered.device && now.inode == registered.inode) return describe(now);
  } catch (const base::Failure&) {  // NOLINT(bugprone-empty-catch): it was closed, or belongs to another by now
  }
  return describe(registered);
}

}  // namespace sluice::facts
