// What cuDeviceGetAttribute answers.
#pragma once

namespace sluice::softgpu {

class Device;

inline constexpr int attribute_compute_capability_major = 75;
inline constexpr int attribute_compute_capability_minor = 76;

// Throws Refusal (invalid value) for an attribute that CUDA 13.0 does not have.
int device_attribute(const Device& device, int attribute);

}  // namespace sluice::softgpu
