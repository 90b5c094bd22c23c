// SPDX-License-Identifier: Apache-2.0
#include "paths/grouping.h"

#include <algorithm>

#include "transfer/deep_read.h"
#include "transfer/gathered_write.h"

namespace sluice::paths {

namespace {

// What the page cache does not have after all is read ahead by the kernel where one thread reads much of it.
constexpr std::uint64_t largest_left_over = std::uint64_t{512} << 10U;

}  // namespace

bool fits(GroupClass group_class, const File& file, std::uint64_t size) noexcept {
  if (group_class != GroupClass::disk) return size <= largest_in(group_class);
  return block_of(file) <= transfer::largest_disk_block &&
         size <= (file.facts.direct ? transfer::most_in_a_read_item : largest_left_over);
}

std::uint64_t largest_in(GroupClass group_class) noexcept {
  return group_class == GroupClass::write ? transfer::most_in_a_write_item : transfer::most_in_a_read_item;
}

// Drives serve more than one thread gives them; what is cached shares launches, and a buffered file has one writer.
std::uint8_t max_groups_of(GroupClass group_class, const File& file) noexcept {
  const bool one = group_class == GroupClass::cached || (group_class == GroupClass::write && !file.facts.direct);
  return one ? 1 : 2;
}

std::uint32_t block_of(const File& file) noexcept {
  return file.facts.direct ? std::max(1U, file.facts.offset_alignment) : 1;
}

}  // namespace sluice::paths
