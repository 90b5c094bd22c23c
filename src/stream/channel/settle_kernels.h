// SPDX-License-Identifier: Apache-2.0
// Our kernels in a context, before a stream of it comes to wait for us: while they are being loaded the driver waits
// for all streams, and next to nothing else goes on in it.
#pragma once

#include <optional>

#include "gpu/cuda_abi.h"
#include "gpu/loading.h"
#include "gpu/stream_scope.h"

namespace sluice::stream {

inline constexpr int most_milliseconds_for_kernels = 2000;

// Has them loaded where that holds no stream up. A stream that is busy does without them, and where it has taken long
// once so do all, until another call has had the rest loaded; no thread begins to load them as long as `without` lives.
// False: the driver is at it, and takes long.
bool settle_kernels(const gpu::StreamScope& scope, cuda::Stream stream, std::optional<gpu::KernelLoadHold>& without);

}  // namespace sluice::stream
