// SPDX-License-Identifier: Apache-2.0
// The path that everybody gets: pread and pwrite, and for device memory a bounce buffer in between.
#pragma once

#include <cstdint>

#include "paths/bounce_copier.h"
#include "paths/path.h"

namespace sluice::paths {

// Reads of up to 64 KiB, of what the page cache may have, into device memory.
// The values of sluice.small_reads.
enum class SmallReads : std::uint8_t {
  automatic,    // a copy; where several threads are at it, by kernels that stay for the next one
  copied,       // a copy each
  resident,     // by kernels that stay, also for a lone thread
  bar_mapping,  // by the CPU's stores, into registered memory that has a mapping; the rest as automatic
};

// Does that path itself ask whether the descriptor is still the file's? It does so while a device copies or begins to:
// of what a write of 4 KiB takes beside the copy and the write, asking is half. A small read that finds out so late has
// brought bytes of another file, and fails.
bool looks_while_copying(const OpenFile& file, const facts::BufferFacts& memory, base::Direction direction,
                         std::uint64_t length) noexcept;

Path& posix(CopyMode copy_mode, SmallReads small_reads) noexcept;

}  // namespace sluice::paths
