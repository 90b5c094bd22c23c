// SPDX-License-Identifier: Apache-2.0
// Transfers between files and device memory in place (sluice.coherent), as tests expect and count them.
#pragma once

#include <cstdint>

#include "support/memory.h"

namespace sluice::support {

// Whether whole requests of such memory are sure to go in place in this run: on the soft GPU, as
// SLUICE_SOFTGPU_COHERENT and what has been asked of the library say.
enum class Reads : std::uint8_t { small, large };  // out of the page cache, of more than 128 KiB
bool goes_in_place(MemoryKind kind, Reads reads = Reads::small);

// How many went in place, and by anything else between host and device.
struct MovedSoFar {
  std::uint64_t in_place = 0;
  std::uint64_t copies = 0;
};
MovedSoFar moved_so_far();

}  // namespace sluice::support
