// SPDX-License-Identifier: Apache-2.0
// What the twins of the gather and of the scatter kernel have in common: chunks that lie in a staging buffer are
// carried, each when its ticket is there, unless the host calls the launch off. src/gpu/kernels/carrying.cuh says how.
// There are two blocks, of which one is as slow as it may be: what it has may be overtaken by all that comes behind.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels.h"

namespace sluice::softgpu {

struct Ticketed {
  std::uint64_t tickets;
  std::uint64_t completed;
  std::uint64_t words;
  std::uint32_t chunks;
  std::uint32_t silent_up_to;
  std::uint32_t first_number;
  std::uint32_t launch_id;
};

// When the host is told of a chunk. `loaded` is before its bytes are in place, as it may be on a device.
enum class Told { loaded, in_place };

struct Way {
  std::uint64_t to;
  std::uint64_t from;
};
// Of a chunk that lies in a slot.
using WayOfChunk = std::function<Way(std::uint32_t chunk, std::uint32_t slot)>;

void carry_ticketed(const Launch& launch, const Ticketed& given, Told told, const WayOfChunk& way_of);

}  // namespace sluice::softgpu
