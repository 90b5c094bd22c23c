// SPDX-License-Identifier: Apache-2.0
// A driver counts who retains a primary context, and goes on counting where it is reset: each is to release it once.
#include "gpu/primary_context.h"

#include "gpu/peers.h"

namespace sluice::gpu {

bool PrimaryContextHold::begin(int ordinal) noexcept {
  if (is_still_there()) return true;
  end();
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->ctx_get_id == nullptr || driver->device_get(&device_, ordinal) != cuda::success ||
      !is_in_use(ordinal)) {
    return false;
  }
  cuda::Context context = nullptr;
  if (driver->primary_retain(&context, device_) != cuda::success) return false;
  context_ = context;
  if (driver->ctx_get_id(context_, &context_id_) == cuda::success) return true;
  end();
  return false;
}

void PrimaryContextHold::end() noexcept {
  if (context_ == nullptr) return;
  if (const CudaApi* const driver = gpu::driver()) driver->primary_release(device_);
  context_ = nullptr;
}

bool PrimaryContextHold::is_still_there() const noexcept {
  const CudaApi* const driver = gpu::driver();
  unsigned long long id = 0;
  return context_ != nullptr && driver != nullptr && driver->ctx_get_id(context_, &id) == cuda::success &&
         id == context_id_;
}

}  // namespace sluice::gpu
