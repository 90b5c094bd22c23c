// SPDX-License-Identifier: Apache-2.0
// cuInit, and what works before it.
#include "answer.h"
#include "entry_points.h"
#include "machine.h"

namespace sluice::softgpu {

namespace {

constexpr int driver_version = 13000;
constexpr int soft_gpu_version = 1000;

}  // namespace

int cuSluiceSoftGpuVersion() {
  return soft_gpu_version;
}

cuda::Result cuInit(unsigned flags) {
  if (machine_was_lost()) return cuda::error_not_initialized;
  return answer_early(__func__, [&]() -> cuda::Result {
    require(flags == 0);
    if (machine_is_usable()) return cuda::success;
    start_machine();
    // Which calls are to fail is known from now on.
    const cuda::Result wanted = failure_on_request("cuInit");
    if (wanted == cuda::success) open_machine();
    return wanted;
  });
}

cuda::Result cuDriverGetVersion(int* version) {
  return answer_early(__func__, [&] {
    require(version != nullptr);
    *version = driver_version;
  });
}

}  // namespace sluice::softgpu
