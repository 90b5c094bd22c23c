// SPDX-License-Identifier: Apache-2.0
// What kernels of one device reach of another one's memory.
#pragma once

#include <cstdint>

#include "gpu/cuda_api.h"

namespace sluice::gpu {

enum class PeerSettings : std::uint8_t { may_be_switched_on, stay_as_they_are };

// May kernels of the context that is current write all of these bytes, which are another device's? Memory of a context
// (cuMemAlloc): after peer access has been switched on, which this does for good, if it may. Of pools and mappings:
// where the program has let the device in. No where the driver does not tell.
bool kernels_can_write(cuda::DevicePtr at, std::uint64_t length, PeerSettings settings) noexcept;

// Where they find host memory that is pinned for all contexts; 0: nowhere.
cuda::DevicePtr seen_from_here(void* memory) noexcept;

}  // namespace sluice::gpu
