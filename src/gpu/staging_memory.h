// SPDX-License-Identifier: Apache-2.0
// Host memory that devices are to reach, before it is pinned. A child of fork does not have it: a page that a device
// may write to must not become copy-on-write under it.
#pragma once

#include <cstddef>

namespace sluice::gpu {

// Three parts, one behind the other, each of whole pages. The bulk stands in huge pages, where the system has any: the
// fewer pieces a disk's driver has to name of the memory that it reads into, the more requests it takes at a time. (The
// queue of a virtio disk, of 256 pieces, holds one for 512 KiB of single pages.)
struct StagingShape {
  std::size_t ahead = 0;
  std::size_t bulk = 0;  // whole huge pages, or nothing
  std::size_t behind = 0;

  constexpr std::size_t size() const noexcept { return ahead + bulk + behind; }
};

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

// Where the first part begins; null when there is no memory.
std::byte* map_staging(const StagingShape& shape) noexcept;
void unmap_staging(std::byte* memory, const StagingShape& shape) noexcept;

}  // namespace sluice::gpu
