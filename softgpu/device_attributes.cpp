// SPDX-License-Identifier: Apache-2.0
// The attributes of a soft GPU. Those of the machine it imitates are those of a plausible data-centre GPU; those that
// a program decides by (which calls work) tell the truth about this driver.
#include "device_attributes.h"

#include <array>

#include "device.h"
#include "gpu/cuda_abi.h"
#include "refusal.h"

namespace sluice::softgpu {

namespace {

struct Attribute {
  int number;
  int value;
};

constexpr int last_attribute = 147;
constexpr int pci_bus_id = 33;
constexpr int pci_device_id = 34;
constexpr int pci_domain_id = 50;
constexpr int rdma_supported = 116;
constexpr int rdma_flush_options = 117;  // 1: the host's call
constexpr int rdma_writes_ordering = 118;
constexpr int dma_buf_supported = 124;

// The others are 0.
constexpr std::array attributes{
    Attribute{1, 1024},         // MAX_THREADS_PER_BLOCK
    Attribute{2, 1024},         // MAX_BLOCK_DIM_X
    Attribute{3, 1024},         // MAX_BLOCK_DIM_Y
    Attribute{4, 64},           // MAX_BLOCK_DIM_Z
    Attribute{5, 2147483647},   // MAX_GRID_DIM_X
    Attribute{6, 65535},        // MAX_GRID_DIM_Y
    Attribute{7, 65535},        // MAX_GRID_DIM_Z
    Attribute{8, 49152},        // MAX_SHARED_MEMORY_PER_BLOCK
    Attribute{9, 65536},        // TOTAL_CONSTANT_MEMORY
    Attribute{10, 32},          // WARP_SIZE
    Attribute{11, 2147483647},  // MAX_PITCH
    Attribute{12, 65536},       // MAX_REGISTERS_PER_BLOCK
    Attribute{13, 1000000},     // CLOCK_RATE, kHz
    Attribute{14, 512},         // TEXTURE_ALIGNMENT
    Attribute{15, 1},           // GPU_OVERLAP
    Attribute{16, 16},          // MULTIPROCESSOR_COUNT
    Attribute{19, 1},           // CAN_MAP_HOST_MEMORY
    Attribute{30, 512},         // SURFACE_ALIGNMENT
    Attribute{31, 1},           // CONCURRENT_KERNELS
    Attribute{36, 1000000},     // MEMORY_CLOCK_RATE, kHz
    Attribute{37, 512},         // GLOBAL_MEMORY_BUS_WIDTH
    Attribute{38, 4194304},     // L2_CACHE_SIZE
    Attribute{39, 2048},        // MAX_THREADS_PER_MULTIPROCESSOR
    Attribute{40, 2},           // ASYNC_ENGINE_COUNT
    Attribute{41, 1},           // UNIFIED_ADDRESSING
    Attribute{51, 32},          // TEXTURE_PITCH_ALIGNMENT
    Attribute{attribute_compute_capability_major, 9},
    Attribute{attribute_compute_capability_minor, 0},
    Attribute{78, 1},       // STREAM_PRIORITIES_SUPPORTED
    Attribute{81, 233472},  // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    Attribute{82, 65536},   // MAX_REGISTERS_PER_MULTIPROCESSOR
    Attribute{79, 1},       // GLOBAL_L1_CACHE_SUPPORTED
    Attribute{80, 1},       // LOCAL_L1_CACHE_SUPPORTED
    Attribute{83, 1},       // MANAGED_MEMORY
    Attribute{87, 2},       // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
    Attribute{89, 1},       // CONCURRENT_MANAGED_ACCESS
    Attribute{90, 1},       // COMPUTE_PREEMPTION_SUPPORTED
    Attribute{91, 1},       // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
    Attribute{97, 232448},  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    Attribute{99, 1},       // HOST_REGISTER_SUPPORTED
    Attribute{102, 1},      // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    Attribute{106, 32},     // MAX_BLOCKS_PER_MULTIPROCESSOR
    Attribute{111, 1024},   // RESERVED_SHARED_MEMORY_PER_BLOCK
    Attribute{113, 1},      // READ_ONLY_HOST_REGISTER_SUPPORTED
    Attribute{115, 1},      // MEMORY_POOLS_SUPPORTED
    Attribute{122, 1},      // CAN_USE_64_BIT_STREAM_MEM_OPS
    Attribute{123, 1},      // CAN_USE_STREAM_WAIT_VALUE_NOR
    Attribute{126, 1},      // MEM_SYNC_DOMAIN_COUNT
    Attribute{131, -1},     // NUMA_ID
    Attribute{134, 0},      // HOST_NUMA_ID
};

}  // namespace

int device_attribute(const Device& device, int attribute) {
  require(attribute >= 1 && attribute <= last_attribute);
  switch (attribute) {
    case pci_domain_id:
      return pci_domain;
    case pci_bus_id:
      return device.pci_bus();
    case pci_device_id:
      return 0;
    case cuda::device_attribute_pageable_memory_access:
    case cuda::device_attribute_pageable_uses_host_page_tables:
    case cuda::device_attribute_direct_managed_access_from_host:
      return device.knobs().coherent != 0 ? 1 : 0;
    case rdma_supported:
      return device.knobs().rdma != 0 ? 1 : 0;
    case rdma_flush_options:
      return device.knobs().rdma == 1 ? 1 : 0;
    case rdma_writes_ordering:
      return static_cast<int>(device.knobs().rdma_ordering);
    case dma_buf_supported:
      return device.knobs().dma_buf != 0 ? 1 : 0;
    default:
      break;
  }
  for (const Attribute& known : attributes) {
    if (known.number == attribute) return known.value;
  }
  return 0;
}

}  // namespace sluice::softgpu
