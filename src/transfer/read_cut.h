// SPDX-License-Identifier: Apache-2.0
// How a read into device memory is cut into chunks, how many helpers read them, and into which places. A pure function
// of what is known when the read begins.
#pragma once

#include <cstdint>

#include "base/strong.h"
#include "gpu/memory.h"
#include "staging/slot_cursor.h"

namespace sluice::transfer {

// The read, and what goes on beside it.
struct ReadShape {
  base::FileOffset at;
  std::uint64_t length;
  std::uint32_t block;  // what O_DIRECT wants of offsets and lengths; 1 for a buffered descriptor
  std::uint32_t unit;   // chunks begin on multiples of it, but for the first one
  cuda::DevicePtr to;
  bool cached;             // no disk has to bring it first
  bool by_kernel;          // which carries what has been read; else the copy engine does
  unsigned others;         // requests that are under way
  bool workers_suffice;    // among them and this one
  unsigned workers;        // that there are
  unsigned extra_helpers;  // helpers that large reads have shown to be worth having (workers/helper_tuner.h)

  // A request in a crowd is one of three at least.
  bool in_crowd() const noexcept { return others + 1 >= 3; }
};

struct ReadCut {
  // Bytes before the range in chunk 0, so that all others begin on a page of the file, and this one is short where the
  // device waits for it.
  std::uint32_t skip;
  std::uint32_t chunk_bytes;
  std::uint32_t chunks;
  staging::SlotLayout slots;
  std::uint32_t shift;  // where the places begin, so that the kernel finds source and target alike aligned
  unsigned helpers;
  bool cached;
  bool in_crowd;
  bool tells;          // long enough, and alone, to tell whether its helpers were enough
  bool helpers_sleep;  // while their places are full
  // For the copy engine: so many chunks at a time, and fewer where it has nothing of this request to do.
  std::uint32_t chunks_a_copy;
  bool less_when_idle;
};

ReadCut cut_read(const ReadShape& shape) noexcept;

}  // namespace sluice::transfer
