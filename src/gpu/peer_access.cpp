// SPDX-License-Identifier: Apache-2.0
// A kernel that stores where it has no access costs the program its context, so each kind of memory needs its own
// proof.
#include "gpu/peer_access.h"

#include <algorithm>
#include <array>

#include "gpu/memory.h"

namespace sluice::gpu {

namespace {

bool reaches_all_of(cuda::Context peer) noexcept {
  const CudaApi& driver = *gpu::driver();
  if (driver.ctx_enable_peer_access == nullptr) return false;
  const cuda::Result result = driver.ctx_enable_peer_access(peer, 0);
  return result == cuda::success || result == cuda::error_peer_access_already_enabled;
}

bool lets_in(cuda::MemoryPool pool, cuda::MemoryLocation device) noexcept {
  int access = 0;
  return gpu::driver()->pool_get_access != nullptr &&
         gpu::driver()->pool_get_access(&access, pool, &device) == cuda::success && access == cuda::access_read_write;
}
bool lets_in(std::uint64_t mapped_at, cuda::MemoryLocation device) noexcept {
  unsigned long long access = 0;
  return gpu::driver()->mem_get_access != nullptr &&
         gpu::driver()->mem_get_access(&access, &device, mapped_at) == cuda::success &&
         access == cuda::access_read_write;
}

// Up to where the device of the current context has been let in, into memory of a pool or a mapping: the end of one
// mapping at most. 0: nowhere. (The pointer's attribute of access says for pools what their own device may.)
std::uint64_t let_in_up_to(std::uint64_t address, std::uint64_t end) noexcept {
  const CudaApi& driver = *gpu::driver();
  cuda::MemoryPool pool = nullptr;
  cuda::DevicePtr start = 0;
  std::size_t size = 0;
  std::array<int, 3> attributes{cuda::pointer_attribute_mempool_handle, cuda::pointer_attribute_mapping_base_addr,
                                cuda::pointer_attribute_mapping_size};
  std::array<void*, 3> values{&pool, &start, &size};
  cuda::MemoryLocation here{.type = cuda::location_device, .id = -1};
  if (driver.pointer_get_attributes(static_cast<unsigned>(attributes.size()), attributes.data(), values.data(),
                                    address) != cuda::success ||
      driver.ctx_get_device(&here.id) != cuda::success) {
    return 0;
  }
  if (pool != nullptr) return lets_in(pool, here) ? end : 0;
  if (start == 0 || address - start >= size || !lets_in(start, here)) return 0;
  return std::min<std::uint64_t>(end, start + size);
}

}  // namespace

bool kernels_can_write(cuda::DevicePtr at, std::uint64_t length, PeerSettings settings) noexcept {
  for (std::uint64_t covered = 0; covered < length;) {
    const std::uint64_t address = at + covered;
    const facts::BufferFacts memory = inspect(address);
    if (memory.kind != facts::MemoryKind::device) return false;
    std::uint64_t end = memory.base + memory.size;
    if (memory.context == nullptr) {
      end = let_in_up_to(address, end);
    } else if (settings == PeerSettings::stay_as_they_are ||
               !reaches_all_of(static_cast<cuda::Context>(memory.context))) {
      return false;
    }
    if (end <= address) return false;
    covered = end - at;
  }
  return true;
}

cuda::DevicePtr seen_from_here(void* memory) noexcept {
  const CudaApi* const driver = gpu::driver();
  cuda::DevicePtr seen = 0;
  if (driver == nullptr || driver->mem_host_get_device_pointer == nullptr) return 0;
  return driver->mem_host_get_device_pointer(&seen, memory, 0) == cuda::success ? seen : 0;
}

}  // namespace sluice::gpu
