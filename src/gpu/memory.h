// SPDX-License-Identifier: Apache-2.0
// What the driver knows of an address, and working on the context that the address belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "facts/buffer.h"
#include "gpu/cuda_api.h"

namespace sluice::gpu {

// Looks one address up: one driver call, about 0.1 µs. Without a driver, and for addresses that it has never heard
// of: plain host memory.
facts::BufferFacts inspect(std::uint64_t address) noexcept;

// How many bytes from `address` on are device memory without a gap, counting adjacent mappings, up to `wanted`.
std::uint64_t contiguous_bytes(std::uint64_t address, std::uint64_t wanted) noexcept;

// The same across the ends of allocations that lie beside each other in one address space.
std::uint64_t adjacent_bytes(std::uint64_t address, std::uint64_t wanted) noexcept;

// Of device memory that inspect() knows: once it is free, will its last users have been waited for, or come before that
// in a stream? So it is with all but mappings (cuMemMap), which go when the program says so.
bool outlives_its_streams(const facts::BufferFacts& memory) noexcept;

// The facts that memory of device `ordinal` will have; kind plain_host when there is no such device.
facts::BufferFacts memory_of_device(int ordinal) noexcept;

// The 16 bytes that name a device; zeros when they cannot be had.
cuda::Uuid uuid_of(int ordinal) noexcept;

// Where a device sits on the PCI bus, "0000:3B:00.0"; empty when it cannot be had.
std::string pci_address(int ordinal);

// Waits for everything that was given to a stream before. cuda::error_stream_capture_unsupported when the stream is
// being captured into a graph: then nothing was waited for and the capture is intact.
cuda::Result wait_for_stream(cuda::Stream stream) noexcept;

// The number that no other stream of this process ever has; the handle itself with drivers that have no such number.
unsigned long long stream_number(cuda::Stream stream) noexcept;

// A CUDA refusal as the I/O path reports it.
base::Outcome as_outcome(cuda::Result result) noexcept;

}  // namespace sluice::gpu
