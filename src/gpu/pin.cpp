// SPDX-License-Identifier: Apache-2.0
#include "gpu/pin.h"

#include <array>

namespace sluice::gpu {

cuda::Context pinned_by(const std::byte* memory) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr) return nullptr;
  unsigned type = 0;
  cuda::Context owner = nullptr;
  std::array<int, 2> attributes{cuda::pointer_attribute_memory_type, cuda::pointer_attribute_context};
  std::array<void*, 2> values{&type, &owner};
  const cuda::Result known = driver->pointer_get_attributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                                            values.data(), reinterpret_cast<cuda::DevicePtr>(memory));
  return known == cuda::success && type != 0 ? owner : nullptr;
}

cuda::Result Pin::make(cuda::Context context, unsigned long long context_id, std::span<std::byte> memory) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr) return cuda::error_not_initialized;
  if (driver->mem_host_get_device_pointer == nullptr) return cuda::error_not_supported;
  if (!is_there()) {
    const cuda::Result result = driver->mem_host_register(memory.data(), memory.size(), cuda::host_register_portable);
    if (result != cuda::success) return result;
    memory_ = memory;
    context_ = context;
    context_id_ = context_id;
  }
  if (seen_ != 0) return cuda::success;
  const cuda::Result result = driver->mem_host_get_device_pointer(&seen_, memory_.data(), 0);
  if (result != cuda::success) seen_ = 0;
  return result;
}

// A primary context that was reset has the handle of the one before it.
bool Pin::is_left() const noexcept {
  if (!is_there()) return false;
  const cuda::Context owner = pinned_by(memory_.data());
  if (owner == nullptr || owner != context_) return true;
  const CudaApi& driver = *gpu::driver();
  unsigned long long id = 0;
  return driver.ctx_get_id != nullptr && driver.ctx_get_id(owner, &id) == cuda::success && id != context_id_;
}

void Pin::drop() noexcept {
  if (const CudaApi* const driver = gpu::driver(); is_there() && driver != nullptr) {
    driver->mem_host_unregister(memory_.data());
  }
  *this = {};
}

}  // namespace sluice::gpu
