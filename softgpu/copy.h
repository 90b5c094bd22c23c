// SPDX-License-Identifier: Apache-2.0
// Copies and fills, ordered on a stream.
#pragma once

#include <cstdint>
#include <vector>

#include "place.h"
#include "stream_use.h"

namespace sluice::softgpu {

enum class CopyCall {
  synchronous,   // cuMemcpy and its kind: back when the host may use both ends
  asynchronous,  // ...Async: back at once, where the memory allows it
};

void copy(const StreamUse& use, Place to, Place from, CopyCall call);
// For those of the synchronous ones that have returned early (SLUICE_SOFTGPU_LATE_COPIES).
void wait_for_late_copies();

// One of a batch, in which each says when its source may be read.
struct PlannedCopy {
  Place to;
  Place from;
  cuda::SourceAccess source;
};
void copy_batch(const StreamUse& use, std::vector<PlannedCopy> copies);

// The bytes of one place into another of the same size, now, on the calling thread.
void move_bytes(const Place& to, const Place& from);

// `value` repeated `count` times; its lowest `width` bytes (1, 2 or 4) are meant.
struct Pattern {
  std::uint32_t value;
  unsigned width;
};
void fill(const StreamUse& use, std::uint64_t address, Pattern pattern, std::uint64_t count, CopyCall call);

}  // namespace sluice::softgpu
