// SPDX-License-Identifier: Apache-2.0
#include "gpu/peer_memory.h"

namespace sluice::gpu {

namespace {

cuda::MemoryLocation on_device(int ordinal) noexcept {
  return {cuda::location_device, ordinal};
}

cuda::Result let(const CudaApi& driver, cuda::DevicePtr address, std::size_t size, int device) noexcept {
  const cuda::AccessDescription access{on_device(device), cuda::access_read_write};
  return driver.mem_set_access(address, size, &access, 1);
}

}  // namespace

cuda::Result PeerMemory::make(int owner, std::size_t bytes) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->mem_get_granularity == nullptr || driver->mem_create == nullptr ||
      driver->mem_reserve == nullptr || driver->mem_map == nullptr || driver->mem_set_access == nullptr ||
      driver->mem_release == nullptr || driver->mem_unmap == nullptr || driver->mem_address_free == nullptr) {
    return cuda::error_not_supported;
  }
  cuda::AllocationProperties wanted{};
  wanted.type = cuda::allocation_pinned;
  wanted.location = on_device(owner);
  std::size_t step = 0;
  cuda::Result result = driver->mem_get_granularity(&step, &wanted, cuda::granularity_minimum);
  if (result != cuda::success) return result;
  const std::size_t size = step == 0 ? bytes : (bytes + step - 1) / step * step;
  unsigned long long memory = 0;
  result = driver->mem_create(&memory, size, &wanted, 0);
  if (result != cuda::success) return result;
  cuda::DevicePtr address = 0;
  result = driver->mem_reserve(&address, size, 0, 0, 0);
  if (result == cuda::success) {
    result = driver->mem_map(address, size, 0, memory, 0);
    if (result == cuda::success) {
      result = let(*driver, address, size, owner);
      if (result != cuda::success) driver->mem_unmap(address, size);
    }
    if (result != cuda::success) driver->mem_address_free(address, size);
  }
  driver->mem_release(memory);  // the mapping keeps it
  if (result != cuda::success) return result;
  address_ = address;
  size_ = size;
  readers_ = std::uint64_t{1} << static_cast<unsigned>(owner);
  return cuda::success;
}

cuda::Result PeerMemory::let_in(int reader) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(reader);
  if ((readers_ & bit) != 0) return cuda::success;
  const cuda::Result result = let(*gpu::driver(), address_, size_, reader);
  if (result == cuda::success) readers_ |= bit;
  return result;
}

void PeerMemory::free() noexcept {
  if (!is_there()) return;
  const CudaApi& driver = *gpu::driver();
  if (driver.mem_unmap(address_, size_) == cuda::success) driver.mem_address_free(address_, size_);
  forget();
}

void PeerMemory::forget() noexcept {
  address_ = 0;
  size_ = 0;
  readers_ = 0;
}

ContextScope::ContextScope(cuda::Context context) noexcept
    : driver_(gpu::driver()), status_(driver_ == nullptr ? cuda::error_not_initialized : driver_->ctx_push(context)) {}

ContextScope::~ContextScope() {
  if (status_ != cuda::success) return;
  cuda::Context popped = nullptr;
  driver_->ctx_pop(&popped);
}

}  // namespace sluice::gpu
