// SPDX-License-Identifier: Apache-2.0
// What is true of a piece of memory that a caller hands us. Filled by gpu/ (the driver knows), read by route/.
#pragma once

#include <cstdint>

namespace sluice::facts {

enum class MemoryKind : std::uint8_t {
  plain_host,   // malloc, mmap, stack: the driver has never heard of it
  pinned_host,  // allocated or registered by the driver, the CPU may touch it
  managed,      // migrates between host and device
  device,       // device memory: the CPU may not touch it
};

constexpr bool is_host(MemoryKind kind) noexcept {
  return kind == MemoryKind::plain_host || kind == MemoryKind::pinned_host;
}

struct BufferFacts {
  MemoryKind kind = MemoryKind::plain_host;
  bool asked = false;      // a driver was there to ask; else a device's address looks like plain memory
  bool settled = false;    // the driver ends the program's synchronous copies and fills of it only when all is in place
  bool soft = false;       // the device is the soft GPU
  bool backed = false;     // its memory lies where SLUICE_SOFTGPU_BACKING says, and I/O can reach it there
  int device = -1;         // ordinal; -1 for plain host memory
  std::uint64_t base = 0;  // start of the allocation; 0 where unknown (plain host memory)
  std::uint64_t size = 0;  // bytes from base on that are known to belong together; 0 where unknown
  std::uint64_t id = 0;    // the driver's id of the allocation, never used twice in a process; 0 where unknown
  void* context = nullptr;  // the CUcontext it belongs to; nullptr where none owns it (host memory, VMM, pools)

  // Is all of this one allocation's? What no context owns may be mapped piece by piece.
  constexpr bool is_known_to_hold(std::uint64_t address, std::uint64_t length) const noexcept {
    return context != nullptr && address >= base && address - base <= size && length <= size - (address - base);
  }
};

}  // namespace sluice::facts
