// SPDX-License-Identifier: Apache-2.0
// Memory that this processor is about to write, and another one has written: asked for ahead of time.
#pragma once

namespace sluice::base {

// The line of memory that holds this address, in which nobody else has a part from then on, as long as nobody asks for
// it. Any address will do: where there is no memory, nothing happens.
inline void fetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  // What the compiler's own makes without -mprfchw is for reading alone.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace sluice::base
