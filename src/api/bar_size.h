// SPDX-License-Identifier: Apache-2.0
// The size of BAR1, through which a GPU shows its memory.
#pragma once

#include <cstdint>

namespace sluice::api {

// In KiB, of the device with that index; 0 where there is none, or it is not known.
std::uint64_t bar_kb(int gpu_index);

}  // namespace sluice::api
