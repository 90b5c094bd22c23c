// SPDX-License-Identifier: Apache-2.0
// Opening the driver under test.
#include "driver_calls.h"

#include <array>

namespace sluice::gpu_suite {

void* driver_library() {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library;
}

std::vector<std::string>& missing_calls() {
  static auto* const names = new std::vector<std::string>;
  return *names;
}

bool driver_is_soft() {
  return driver_library() != nullptr && ::dlsym(driver_library(), "cuSluiceSoftGpuVersion") != nullptr;
}

std::string driver_description() {
  std::array<char, 256> name{};
  int version = 0;
  cuDriverGetVersion(&version);
  if (cuDeviceGetName(name.data(), static_cast<int>(name.size()), 0) != cuda::success) return "no device";
  return std::string(name.data()) + ", driver for CUDA " + std::to_string(version) +
         (driver_is_soft() ? " (the soft GPU)" : " (a real driver)");
}

}  // namespace sluice::gpu_suite
