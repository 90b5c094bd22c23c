// SPDX-License-Identifier: Apache-2.0
// Asked of sysfs, else of NVIDIA's management library: in a virtual machine sysfs may not know the device's address.
#include "api/bar_size.h"

#include <string>

#include "gpu/cuda_api.h"
#include "gpu/memory.h"
#include "gpu/nvml.h"
#include "topology/pci.h"

namespace sluice::api {

std::uint64_t bar_kb(int gpu_index) {
  if (gpu::driver() == nullptr) return 0;
  constexpr int window = 1;  // BAR1 is the one that shows device memory
  const std::string address = gpu::pci_address(gpu_index);
  std::uint64_t bytes = topology::bar_bytes(facts::Root{}, address, window);
  if (bytes == 0) bytes = gpu::bar_bytes_by_nvml(address, gpu::uuid_of(gpu_index));
  return bytes / 1024;
}

}  // namespace sluice::api
