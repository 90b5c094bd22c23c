// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs as a provider: the UVM driver's device-P2P mapping (open kernel modules 565 and later, static BAR1, no
// write-combining). Experimental: built from the published structures, it has met no machine yet that has all of that.
// It serves memory that was made by cuMemCreate and can be exported as a descriptor.
#pragma once

#include "gpu/pinnable.h"

namespace sluice::gpu {

Provider& uvm_provider() noexcept;

}  // namespace sluice::gpu
