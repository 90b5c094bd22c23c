// SPDX-License-Identifier: Apache-2.0
// What a stream moves next, as the calls on streams want to have it.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace sluice::bench {

// The library keeps pointers into it until the stream has passed: it must not move.
struct StreamRequest {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t memory_offset = 0;
  ssize_t moved = 0;
};

}  // namespace sluice::bench
