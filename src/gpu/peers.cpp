// SPDX-License-Identifier: Apache-2.0
#include "gpu/peers.h"

#include <algorithm>
#include <cctype>

#include "gpu/cuda_api.h"
#include "gpu/memory.h"

namespace sluice::gpu {

namespace {

std::string address_of(int ordinal) {
  std::string address = pci_address(ordinal);
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return address;
}

bool has_attribute(const CudaApi& driver, int attribute, int one, int other) noexcept {
  int value = 0;
  return driver.device_get_p2p_attribute(&value, attribute, one, other) == cuda::success && value != 0;
}

}  // namespace

std::vector<PeerFacts> peer_facts() {
  const CudaApi* const driver = gpu::driver();
  std::vector<PeerFacts> facts;
  if (driver == nullptr || driver->device_get_p2p_attribute == nullptr) return facts;
  const int count = device_count();
  for (int one = 0; one < count; ++one) {
    for (int other = one + 1; other < count; ++other) {
      const auto both = [&](int attribute) {
        return has_attribute(*driver, attribute, one, other) && has_attribute(*driver, attribute, other, one);
      };
      facts.push_back({address_of(one), address_of(other), both(cuda::p2p_access_supported),
                       both(cuda::p2p_native_atomic_supported)});
    }
  }
  return facts;
}

bool can_reach(int one, int other) noexcept {
  const CudaApi* const driver = gpu::driver();
  int can = 0;
  return driver != nullptr && driver->device_can_access_peer != nullptr &&
         driver->device_can_access_peer(&can, one, other) == cuda::success && can != 0;
}

bool is_joined_by_nvlink(int one, int other) noexcept {
  if (!can_reach(one, other)) return false;
  const CudaApi& driver = *gpu::driver();
  return driver.soft || (driver.device_get_p2p_attribute != nullptr &&
                         has_attribute(driver, cuda::p2p_native_atomic_supported, one, other));
}

bool is_in_use(int ordinal) noexcept {
  const CudaApi* const driver = gpu::driver();
  cuda::Device device = 0;
  unsigned flags = 0;
  int active = 0;
  return driver != nullptr && driver->primary_get_state != nullptr &&
         driver->device_get(&device, ordinal) == cuda::success &&
         driver->primary_get_state(device, &flags, &active) == cuda::success && active != 0;
}

}  // namespace sluice::gpu
