// SPDX-License-Identifier: Apache-2.0
// Copies to a device that wait for no kernel and for no stream. A device has few hardware queues for what streams are
// given, and once all have streams in them that wait, what comes next stands behind one. Copy engines have queues of
// their own, four in each direction. By these go, on an H200 with driver 580, all copies to the host; to the device
// those of 32 KiB or more, and those of two rows, however short; and a value that a stream writes behind such a copy.
// Others share the queues of kernels, as all to managed memory do.
#pragma once

#include <cstddef>
#include <span>

#include "gpu/cuda_api.h"

namespace sluice::gpu {

// As cuMemcpyHtoDAsync. What stands in the stream before, and is no such copy, it does wait for. A single byte has no
// two rows, and shares.
cuda::Result copy_by_engine(const CudaApi& driver, cuda::DevicePtr to, std::span<const std::byte> from,
                            cuda::Stream stream) noexcept;
// So where streams wait for it, or it is quicker so.
cuda::Result copy_to_device(const CudaApi& driver, cuda::DevicePtr to, std::span<const std::byte> from,
                            cuda::Stream stream, bool streams_wait) noexcept;

}  // namespace sluice::gpu
