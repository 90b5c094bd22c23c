// SPDX-License-Identifier: Apache-2.0
// What cuDeviceGetAttribute answers.
#pragma once

namespace sluice::softgpu {

class Device;

inline constexpr int attribute_most_threads = 1;  // of a block
inline constexpr int attribute_most_block_x = 2;  // followed by y and z
inline constexpr int attribute_most_grid_x = 5;   // followed by y and z
inline constexpr int attribute_most_threads_a_multiprocessor = 39;
inline constexpr int attribute_shared_a_multiprocessor = 81;
inline constexpr int attribute_most_blocks_a_multiprocessor = 106;
inline constexpr int attribute_most_shared_a_block = 97;  // where a kernel opts in
inline constexpr int attribute_reserved_shared_a_block = 111;
inline constexpr int attribute_compute_capability_major = 75;
inline constexpr int attribute_compute_capability_minor = 76;

// Throws Refusal (invalid value) for an attribute that CUDA 13.0 does not have.
int device_attribute(const Device& device, int attribute);

}  // namespace sluice::softgpu
