// SPDX-License-Identifier: Apache-2.0
// What a program's own copies and fills owe us. A driver's "synchronous" copy of up to 64 KiB out of pageable memory,
// and a fill, may return before the device has the bytes. Work that follows in the program's streams is behind them;
// our streams wait for none of them. So with the first transfer of an allocation, or its registration, the driver is
// told to end such calls only when their bytes are in place (SYNC_MEMOPS), and ends those that are under way. What a
// program has put into streams and not waited for is not waited for here, as with NVIDIA's library.
#pragma once

#include <cstdint>

#include "facts/buffer.h"

namespace sluice::gpu {

// Does that unless it has been done. Where the driver refuses (mapped memory and pools, with some), copies under way in
// the legacy stream and in this thread's own are given 100 us at most, with each transfer: so the calling thread is the
// program's.
void settle(const facts::BufferFacts& memory, std::uint64_t address) noexcept;

}  // namespace sluice::gpu
