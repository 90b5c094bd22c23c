// SPDX-License-Identifier: Apache-2.0
// Counts what the calling thread takes from the heap: this program's malloc and operator new stand before the C
// library's and the C++ library's.
#pragma once

#include <cstdint>

namespace sluice::bench {

// Since the thread began; what the driver's own code takes is left out, from the next call below on.
std::uint64_t allocations_of_this_thread();

// To be called once the driver is loaded and before other threads count.
void leave_out_the_driver();

}  // namespace sluice::bench
