// SPDX-License-Identifier: Apache-2.0
// Where a file's bytes lie on its device, as far as the file system tells.
#pragma once

#include <cstdint>
#include <optional>

namespace sluice::facts {

// A range of a file.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

// The first range from `from` on whose bytes a device holds, or will once they have been written back: no hole, not
// merely reserved, not kept within the inode, not compressed. Nothing where there is none; where the file system does
// not tell, too.
std::optional<Extent> first_stored_extent(int fd, std::uint64_t from) noexcept;

// Whether all of a range is stored on a device now.
bool is_stored(int fd, const Extent& extent) noexcept;

// The same, and in one piece: byte n of the range lies n bytes behind its first one.
bool is_stored_together(int fd, const Extent& extent) noexcept;

// Whether the file has bytes in a range, stored or on their way, that are not merely reserved; nothing where the file
// system does not tell.
std::optional<bool> has_data(int fd, const Extent& range) noexcept;

}  // namespace sluice::facts
