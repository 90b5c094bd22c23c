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

// A chunk, in which slot it lies, and how many of its bytes there are.
using CarryChunk = std::function<void(std::uint32_t chunk, std::uint32_t slot, std::uint32_t length)>;

void carry_ticketed(const Launch& launch, const Ticketed& given, const CarryChunk& carry);

}  // namespace sluice::softgpu
