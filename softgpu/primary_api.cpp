// SPDX-License-Identifier: Apache-2.0
// Entry points about primary contexts.
#include "answer.h"
#include "device.h"
#include "entry_points.h"

namespace sluice::softgpu {

namespace {

cuda::Result release(const char* name, cuda::Device device) {
  return answer(name, [&] { device_of(device).release_primary(); });
}

cuda::Result reset(const char* name, cuda::Device device) {
  return answer(name, [&] { device_of(device).reset_primary(); });
}

cuda::Result set_flags(const char* name, cuda::Device device, unsigned flags) {
  return answer(name, [&] {
    require_context_flags(flags);
    device_of(device).set_primary_flags(flags);
  });
}

}  // namespace

cuda::Result cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::Device device) {
  return answer(__func__, [&] {
    require(context != nullptr);
    Device& chosen = device_of(device);
    chosen.retain_primary();
    *context = chosen.primary()->handle();
  });
}

cuda::Result cuDevicePrimaryCtxRelease(cuda::Device device) {
  return release(__func__, device);
}

cuda::Result cuDevicePrimaryCtxRelease_v2(cuda::Device device) {
  return release(__func__, device);
}

cuda::Result cuDevicePrimaryCtxReset(cuda::Device device) {
  return reset(__func__, device);
}

cuda::Result cuDevicePrimaryCtxReset_v2(cuda::Device device) {
  return reset(__func__, device);
}

cuda::Result cuDevicePrimaryCtxSetFlags(cuda::Device device, unsigned flags) {
  return set_flags(__func__, device, flags);
}

cuda::Result cuDevicePrimaryCtxSetFlags_v2(cuda::Device device, unsigned flags) {
  return set_flags(__func__, device, flags);
}

cuda::Result cuDevicePrimaryCtxGetState(cuda::Device device, unsigned* flags, int* active) {
  return answer(__func__, [&] {
    require(flags != nullptr && active != nullptr);
    const Device& chosen = device_of(device);
    *flags = chosen.primary_flags();
    *active = chosen.primary()->workspace() != nullptr ? 1 : 0;
  });
}

}  // namespace sluice::softgpu
