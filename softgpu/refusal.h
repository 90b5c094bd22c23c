// SPDX-License-Identifier: Apache-2.0
// Why a call is refused. Thrown inside, turned into the cuda::Result by answer().
#pragma once

#include "gpu/cuda_abi.h"

namespace sluice::softgpu {

struct Refusal {
  explicit Refusal(cuda::Result why) : code(why) {}
  cuda::Result code;
};

// Refuses with `why` unless the condition holds.
inline void require(bool condition, cuda::Result why = cuda::error_invalid_value) {
  if (!condition) throw Refusal(why);
}

}  // namespace sluice::softgpu
