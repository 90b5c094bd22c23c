// SPDX-License-Identifier: Apache-2.0
// Which items of a path go together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/uring.h"
#include "paths/file.h"

namespace sluice::paths {

enum class GroupClass : std::uint8_t {
  cached,  // reads that the page cache has, as far as anybody knows
  direct,  // the drive moves them itself
  disk,    // reads that wait for a disk
  write,   // writes through staging memory
  none,    // each by itself
};
inline constexpr std::size_t group_classes = 4;  // that are some

struct Grouping {
  GroupClass group_class = GroupClass::none;
  io::CompletionMode completion = io::CompletionMode::interrupt;  // of the drive's own transfers
  std::uint8_t max_groups = 1;                                    // how many such groups may be under way at a time
};

// Through staging memory: what a class takes of one file, and how.
bool fits(GroupClass group_class, const File& file, std::uint64_t size) noexcept;
std::uint64_t largest_in(GroupClass group_class) noexcept;
std::uint8_t max_groups_of(GroupClass group_class, const File& file) noexcept;
// What O_DIRECT reads and writes are multiples of.
std::uint32_t block_of(const File& file) noexcept;

}  // namespace sluice::paths
