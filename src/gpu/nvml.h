// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's management library tells and the CUDA driver does not. It is loaded for the question alone.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/cuda_abi.h"

namespace sluice::gpu {

inline constexpr const char* nvml_library = "libnvidia-ml.so.1";

// The size of the BAR that shows the device's memory; 0 where the library is not there or does not know. The device is
// found by its address on the PCI bus, else by its UUID: a virtual machine may have numbers of its own.
std::uint64_t bar_bytes_by_nvml(const std::string& pci_address, const cuda::Uuid& uuid,
                                const char* library = nvml_library);

}  // namespace sluice::gpu
