// SPDX-License-Identifier: Apache-2.0
// Host memory that devices are to reach, before it is pinned. A child of fork does not have it: a page that a device
// may write to must not become copy-on-write under it.
#pragma once

#include <cstddef>

#include "base/page_size.h"

namespace sluice::gpu {

// Three parts, one behind the other, each of whole pages. The bulk stands in huge pages, where the system has any that
// are no larger: the fewer pieces a disk's driver has to name of the memory that it reads into, the more requests it
// takes at a time. (The queue of a virtio disk, of 256 pieces, holds one for 512 KiB of single pages.)
struct StagingShape {
  std::size_t ahead = 0;
  std::size_t bulk = 0;
  std::size_t behind = 0;

  constexpr std::size_t size() const noexcept { return ahead + bulk + behind; }
  // Each part made longer, to the end of its last page.
  StagingShape in_pages(std::size_t page = base::page_size()) const noexcept {
    return {base::whole_pages(ahead, page), base::whole_pages(bulk, page), base::whole_pages(behind, page)};
  }
};

// The largest huge page of the system that fits in so many bytes; 0 where there is none. A kernel of 64 KiB pages has
// some of 2 MiB, 512 MiB and 16 GiB, one of 4 KiB pages of 2 MiB and 1 GiB, and on Arm of 64 KiB and 32 MiB, too.
std::size_t huge_page_within(std::size_t bytes, const char* folder = "/sys/kernel/mm/hugepages") noexcept;

// Where the first part begins; null when there is no memory.
std::byte* map_staging(const StagingShape& shape) noexcept;
void unmap_staging(std::byte* memory, const StagingShape& shape) noexcept;

}  // namespace sluice::gpu
