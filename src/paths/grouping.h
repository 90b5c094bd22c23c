// SPDX-License-Identifier: Apache-2.0
// Which items of a path go together.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "io/uring.h"
#include "paths/file.h"

namespace sluice::paths {

enum class GroupClass : std::uint8_t {
  cached,  // reads that the page cache has, as far as is known
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
  bool may_wait = false;                                          // for storage, and for an unknown time

  // Asked of each item several times: all of it at once.
  friend bool operator==(const Grouping& one, const Grouping& other) noexcept {
    return std::bit_cast<std::uint32_t>(one) == std::bit_cast<std::uint32_t>(other);
  }
};

// Through staging memory: how an item of that class goes with others, or that it does not.
Grouping through_staging(GroupClass group_class, const File& file, std::uint64_t size) noexcept;
// How what a group has left goes on: what the page cache did not have waits for a disk, all else goes by itself.
Grouping rest_of(const Grouping& before, const File& file, std::uint64_t size) noexcept;

// The largest item of a class, and how many there are in a group.
std::uint64_t largest_in(GroupClass group_class) noexcept;
inline constexpr std::size_t most_in_any_group = 256;
std::size_t most_in_a_group(GroupClass group_class) noexcept;

// What O_DIRECT reads and writes are multiples of.
std::uint32_t block_of(const File& file) noexcept;

}  // namespace sluice::paths
