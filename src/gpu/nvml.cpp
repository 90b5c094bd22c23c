// SPDX-License-Identifier: Apache-2.0
// Five functions of a library with a stable C interface, found by name.
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

namespace sluice::gpu {

namespace {

using Device = void*;

struct MappingInfo {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

// "GPU-" and the bytes in groups of 4, 2, 2, 2 and 6.
std::string name_of(const cuda::Uuid& uuid) {
  std::string name = "GPU";
  int place = 0;
  for (const auto byte : uuid.bytes) {
    if (place == 0 || place == 4 || place == 6 || place == 8 || place == 10) name += '-';
    name += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    ++place;
  }
  return name;
}

template <typename Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

std::uint64_t bar_bytes_by_nvml(const std::string& pci_address, const cuda::Uuid& uuid, const char* library) {
  const std::unique_ptr<void, int (*)(void*)> nvml(
      ::dlopen(library, RTLD_NOW | RTLD_LOCAL), [](void* opened) { return opened == nullptr ? 0 : ::dlclose(opened); });
  if (!nvml) return 0;
  auto* const begin = function<int()>(nvml.get(), "nvmlInit_v2");
  auto* const end = function<int()>(nvml.get(), "nvmlShutdown");
  auto* const by_address = function<int(const char*, Device*)>(nvml.get(), "nvmlDeviceGetHandleByPciBusId_v2");
  auto* const by_uuid = function<int(const char*, Device*)>(nvml.get(), "nvmlDeviceGetHandleByUUID");
  auto* const window = function<int(Device, MappingInfo*)>(nvml.get(), "nvmlDeviceGetBAR1MemoryInfo");
  const bool whole =
      begin != nullptr && end != nullptr && by_address != nullptr && by_uuid != nullptr && window != nullptr;
  if (!whole || begin() != 0) return 0;
  Device device = nullptr;
  MappingInfo info;
  const bool found = by_address(pci_address.c_str(), &device) == 0 || by_uuid(name_of(uuid).c_str(), &device) == 0;
  const bool told = found && window(device, &info) == 0;
  end();
  return told ? info.total : 0;
}

}  // namespace sluice::gpu
