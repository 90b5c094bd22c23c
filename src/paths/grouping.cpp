// SPDX-License-Identifier: Apache-2.0
#include "paths/grouping.h"

#include <algorithm>

#include "paths/p2pdma/group.h"
#include "transfer/deep_read.h"
#include "transfer/gathered_write.h"

namespace sluice::paths {

namespace {

// What the page cache does not have after all is read ahead by the kernel where one thread reads much of it.
constexpr std::uint64_t largest_left_over = std::uint64_t{512} << 10U;

bool fits(GroupClass group_class, const File& file, std::uint64_t size) noexcept {
  if (group_class != GroupClass::disk) return size <= largest_in(group_class);
  return block_of(file) <= transfer::largest_disk_block &&
         size <= (file.facts.direct ? transfer::most_in_a_read_item : largest_left_over);
}

// A cached read does not wait where the file system tells what it has; others may keep the reader waiting.
bool may_wait_for_cached(facts::FileSystem file_system) noexcept {
  switch (file_system) {
    case facts::FileSystem::none:
    case facts::FileSystem::ext4:
    case facts::FileSystem::xfs:
    case facts::FileSystem::btrfs:
    case facts::FileSystem::memory:
      return false;
    default:
      return true;
  }
}

}  // namespace

Grouping through_staging(GroupClass group_class, const File& file, std::uint64_t size) noexcept {
  if (!fits(group_class, file, size)) return {};
  const bool cached = group_class == GroupClass::cached;
  // Drives serve more than one thread gives them; what is cached shares launches, and a buffered file has one writer.
  const bool one = cached || (group_class == GroupClass::write && !file.facts.direct);
  return {.group_class = group_class,
          .max_groups = static_cast<std::uint8_t>(one ? 1 : 2),
          .may_wait = !cached || may_wait_for_cached(file.facts.file_system)};
}

Grouping rest_of(const Grouping& before, const File& file, std::uint64_t size) noexcept {
  return before.group_class == GroupClass::cached ? through_staging(GroupClass::disk, file, size) : Grouping{};
}

std::uint64_t largest_in(GroupClass group_class) noexcept {
  return group_class == GroupClass::write ? transfer::most_in_a_write_item : transfer::most_in_a_read_item;
}

std::size_t most_in_a_group(GroupClass group_class) noexcept {
  switch (group_class) {
    case GroupClass::disk:
      return transfer::most_disk_items;
    case GroupClass::write:
      return transfer::most_write_items;
    case GroupClass::direct:
      return most_in_a_direct_group;
    default:
      return most_in_any_group;
  }
}

std::uint32_t block_of(const File& file) noexcept {
  return file.facts.direct ? std::max(1U, file.facts.offset_alignment) : 1;
}

}  // namespace sluice::paths
