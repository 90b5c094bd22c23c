// SPDX-License-Identifier: Apache-2.0
// Entry points about devices.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "answer.h"
#include "device.h"
#include "device_attributes.h"
#include "entry_points.h"
#include "machine.h"

namespace sluice::softgpu {

namespace {

// As much of the text as fits, with its end.
void give_text(std::string_view text, char* buffer, int length) {
  require(buffer != nullptr && length > 0);
  const std::size_t size = std::min(text.size(), static_cast<std::size_t>(length) - 1);
  std::memcpy(buffer, text.data(), size);
  buffer[size] = '\0';
}

cuda::Result give_uuid(const char* name, cuda::Uuid* uuid, cuda::Device device) {
  return answer(name, [&] {
    require(uuid != nullptr);
    *uuid = device_of(device).uuid();
  });
}

// [domain:]bus:device[.function]
bool looks_like_a_pci_address(std::string_view text) {
  const auto digits = text.find_first_not_of("0123456789abcdefABCDEF:.");
  return digits == std::string_view::npos && text.find(':') != std::string_view::npos;
}

bool peers(const Device& one, const Device& other) {
  return machine().knobs.peers.join(one.ordinal(), other.ordinal());
}

}  // namespace

cuda::Result cuDeviceGet(cuda::Device* device, int ordinal) {
  return answer(__func__, [&] {
    require(device != nullptr);
    device_of(ordinal);
    *device = ordinal;
  });
}

cuda::Result cuDeviceGetCount(int* count) {
  return answer(__func__, [&] {
    require(count != nullptr);
    *count = static_cast<int>(machine().devices.size());
  });
}

cuda::Result cuDeviceGetName(char* name, int length, cuda::Device device) {
  return answer(__func__, [&] { give_text(device_of(device).name(), name, length); });
}

cuda::Result cuDeviceGetUuid(cuda::Uuid* uuid, cuda::Device device) {
  return give_uuid(__func__, uuid, device);
}

cuda::Result cuDeviceGetUuid_v2(cuda::Uuid* uuid, cuda::Device device) {
  return give_uuid(__func__, uuid, device);
}

cuda::Result cuDeviceTotalMem_v2(std::size_t* bytes, cuda::Device device) {
  return answer(__func__, [&] {
    require(bytes != nullptr);
    *bytes = device_of(device).memory().size();
  });
}

cuda::Result cuDeviceGetAttribute(int* value, int attribute, cuda::Device device) {
  return answer(__func__, [&] {
    require(value != nullptr);
    *value = device_attribute(device_of(device), attribute);
  });
}

cuda::Result cuDeviceComputeCapability(int* major, int* minor, cuda::Device device) {
  return answer(__func__, [&] {
    require(major != nullptr && minor != nullptr);
    *major = device_attribute(device_of(device), attribute_compute_capability_major);
    *minor = device_attribute(device_of(device), attribute_compute_capability_minor);
  });
}

cuda::Result cuDeviceGetPCIBusId(char* id, int length, cuda::Device device) {
  return answer(__func__, [&] {
    const std::string text = device_of(device).pci_bus_id();
    require(length > 0 && static_cast<std::size_t>(length) > text.size());  // half an address is none
    give_text(text, id, length);
  });
}

cuda::Result cuDeviceGetByPCIBusId(cuda::Device* device, const char* id) {
  return answer(__func__, [&] {
    require(device != nullptr && id != nullptr);
    const std::string_view wanted = id;
    for (const auto& candidate : machine().devices) {
      // With or without the function, as CUDA accepts it.
      const std::string full = candidate->pci_bus_id();
      const std::string_view short_form = std::string_view(full).substr(0, full.size() - 2);
      if (wanted == full || wanted == short_form) {
        *device = candidate->ordinal();
        return;
      }
    }
    throw Refusal(looks_like_a_pci_address(wanted) ? cuda::error_invalid_device : cuda::error_invalid_value);
  });
}

cuda::Result cuDeviceCanAccessPeer(int* can, cuda::Device device, cuda::Device peer) {
  return answer(__func__, [&] {
    require(can != nullptr);
    *can = peers(device_of(device), device_of(peer)) ? 1 : 0;
  });
}

cuda::Result cuDeviceGetP2PAttribute(int* value, int attribute, cuda::Device source, cuda::Device target) {
  constexpr int performance_rank = 1;
  constexpr int last_attribute = 5;
  return answer(__func__, [&] {
    require(value != nullptr && attribute >= performance_rank && attribute <= last_attribute);
    const Device& from = device_of(source);
    const Device& to = device_of(target);
    require(&from != &to, cuda::error_invalid_device);
    // No atomics over the link that there is not; all peers are equally near.
    constexpr int access_supported = 2;
    constexpr int array_access_supported = 4;
    const bool yes = attribute == access_supported || attribute == array_access_supported;
    *value = yes && peers(from, to) ? 1 : 0;
  });
}

}  // namespace sluice::softgpu
