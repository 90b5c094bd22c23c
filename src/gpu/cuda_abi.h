// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's binary interface that Sluice speaks, in our own words: types, constants and
// structures as libcuda.so.1 has them since CUDA 12. The library calls them (gpu/), the soft GPU implements them
// (softgpu/). No CUDA toolkit is needed to build; tests/gpu compares this page with <cuda.h> where one is installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cufile.h"  // CUresult, CUstream

namespace sluice::cuda {

using Device = int;
using DevicePtr = std::uint64_t;
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;

// CUresult. The public header only promises an int-sized type; here an answer of the driver is mixed up with no number.
enum class Result : int {
  success = 0,
  error_invalid_value = 1,
  error_out_of_memory = 2,
  error_not_initialized = 3,
  error_deinitialized = 4,
  error_no_device = 100,
  error_invalid_device = 101,
  error_invalid_image = 200,
  error_invalid_context = 201,
  error_no_binary_for_gpu = 209,
  error_uncorrectable_memory = 214,
  error_peer_access_unsupported = 217,
  error_invalid_ptx = 218,
  error_uncorrectable_link = 220,
  error_unsupported_ptx_version = 222,
  error_contained = 226,
  error_file_not_found = 301,
  error_operating_system = 304,
  error_invalid_handle = 400,
  error_illegal_state = 401,
  error_not_found = 500,
  error_not_ready = 600,
  error_illegal_address = 700,
  error_launch_timeout = 702,
  error_peer_access_already_enabled = 704,
  error_peer_access_not_enabled = 705,
  error_context_is_destroyed = 709,
  error_assertion = 710,
  error_host_memory_already_registered = 712,
  error_host_memory_not_registered = 713,
  error_hardware_stack = 714,
  error_illegal_instruction = 715,
  error_misaligned_address = 716,
  error_invalid_address_space = 717,
  error_invalid_program_counter = 718,
  error_launch_failed = 719,
  error_tensor_memory_leak = 721,
  error_not_permitted = 800,
  error_not_supported = 801,
  error_mps_client_terminated = 810,
  error_stream_capture_unsupported = 900,
  error_stream_capture_invalidated = 901,
  error_stream_capture_merge = 902,
  error_stream_capture_unmatched = 903,
  error_stream_capture_unjoined = 904,
  error_stream_capture_isolation = 905,
  error_stream_capture_implicit = 906,
  error_captured_event = 907,
  error_stream_capture_wrong_thread = 908,
  error_external_device = 911,
  error_unknown = 999,
};
using enum Result;

constexpr int number_of(Result result) noexcept {
  return static_cast<int>(result);
}

// CUdevice_attribute
enum DeviceAttribute : int {
  device_attribute_integrated = 18,
  device_attribute_pageable_memory_access = 88,
  device_attribute_concurrent_managed_access = 89,
  device_attribute_pageable_uses_host_page_tables = 100,
  device_attribute_direct_managed_access_from_host = 101,
};

// CUpointer_attribute
enum PointerAttribute : int {
  pointer_attribute_context = 1,
  pointer_attribute_memory_type = 2,
  pointer_attribute_device_pointer = 3,
  pointer_attribute_host_pointer = 4,
  pointer_attribute_sync_memops = 6,
  pointer_attribute_buffer_id = 7,
  pointer_attribute_is_managed = 8,
  pointer_attribute_device_ordinal = 9,
  pointer_attribute_range_start_addr = 11,
  pointer_attribute_range_size = 12,
  pointer_attribute_mapped = 13,
  pointer_attribute_is_legacy_ipc_capable = 10,
  pointer_attribute_allowed_handle_types = 14,
  pointer_attribute_is_rdma_capable = 15,
  pointer_attribute_access_flags = 16,
  pointer_attribute_mempool_handle = 17,
  pointer_attribute_mapping_size = 18,
  pointer_attribute_mapping_base_addr = 19,
};

// CUmemorytype
enum MemoryType : unsigned { memory_host = 1, memory_device = 2, memory_array = 3, memory_unified = 4 };

// CUstream_flags, cuMemHostRegister flags
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned host_register_portable = 1;

// CUstreamCaptureStatus, CUstreamCaptureMode
enum CaptureStatus : int { capture_none = 0, capture_active = 1, capture_invalidated = 2 };
enum CaptureMode : int { capture_global = 0, capture_thread_local = 1, capture_relaxed = 2 };

// CUgraph, CUgraphExec, CUgraphNode
using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;
using GraphNode = struct CUgraphNode_st*;

struct Uuid {
  unsigned char bytes[16];
};

// CUevent_flags
inline constexpr unsigned event_blocking_sync = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned event_interprocess = 4;

// cuMemHostAlloc flags, and the other cuMemHostRegister flags
inline constexpr unsigned host_alloc_portable = 1;
inline constexpr unsigned host_alloc_device_map = 2;
inline constexpr unsigned host_alloc_write_combined = 4;
inline constexpr unsigned host_register_device_map = 2;
inline constexpr unsigned host_register_io_memory = 4;
inline constexpr unsigned host_register_read_only = 8;

// CUmemAttach_flags
inline constexpr unsigned attach_global = 1;
inline constexpr unsigned attach_host = 2;
inline constexpr unsigned attach_single = 4;

// CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
inline Stream legacy_stream() noexcept {
  return reinterpret_cast<Stream>(std::uintptr_t{1});
}
inline Stream per_thread_stream() noexcept {
  return reinterpret_cast<Stream>(std::uintptr_t{2});
}

// CUdriverProcAddress_flags, CUdriverProcAddressQueryResult
inline constexpr std::uint64_t proc_address_default = 0;
inline constexpr std::uint64_t proc_address_legacy_stream = 1;
inline constexpr std::uint64_t proc_address_per_thread_stream = 2;
enum ProcAddressStatus : int { proc_found = 0, proc_not_found = 1, proc_version_not_sufficient = 2 };

// CUmemLocationType, CUmemLocation
inline constexpr int location_device = 1;
inline constexpr int location_host = 2;
struct MemoryLocation {
  int type;
  int id;
};

// CUmemAllocationType, CUmemAllocationHandleType, CUmemAllocationProp
inline constexpr int allocation_pinned = 1;
inline constexpr int handle_type_none = 0;
inline constexpr int handle_type_posix_file_descriptor = 1;
struct AllocationProperties {
  int type;
  int handle_types;
  MemoryLocation location;
  void* win32_metadata;
  unsigned char compression;
  unsigned char rdma_capable;
  unsigned short usage;
  unsigned char reserved[4];
};

// CUdevice_P2PAttribute
inline constexpr int p2p_access_supported = 2;
inline constexpr int p2p_native_atomic_supported = 3;

// CUmemAccess_flags, CUmemAccessDesc
inline constexpr int access_none = 0;
inline constexpr int access_read = 1;
inline constexpr int access_read_write = 3;
struct AccessDescription {
  MemoryLocation location;
  int flags;
};

// CUmemAllocationGranularity_flags
inline constexpr int granularity_minimum = 0;
inline constexpr int granularity_recommended = 1;

// CUmemGenericAllocationHandle
using AllocationHandle = unsigned long long;

// CUmemoryPool, CUmemPoolProps, CUmemPool_attribute
using MemoryPool = struct CUmemPoolHandle_st*;
struct PoolProperties {
  int type;
  int handle_types;
  MemoryLocation location;
  void* win32_attributes;
  std::size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};
enum PoolAttribute : int {
  pool_reuse_follow_event_dependencies = 1,
  pool_reuse_allow_opportunistic = 2,
  pool_reuse_allow_internal_dependencies = 3,
  pool_release_threshold = 4,
  pool_reserved_current = 5,
  pool_reserved_high = 6,
  pool_used_current = 7,
  pool_used_high = 8,
};

// CUstreamWaitValue_flags, CUstreamWriteValue_flags
inline constexpr unsigned wait_value_geq = 0;
inline constexpr unsigned wait_value_eq = 1;
inline constexpr unsigned wait_value_and = 2;
inline constexpr unsigned wait_value_nor = 3;
inline constexpr unsigned wait_value_flush = 1U << 30U;
inline constexpr unsigned write_value_default = 0;
inline constexpr unsigned write_value_no_memory_barrier = 1;

// CUstreamBatchMemOpType, CUstreamBatchMemOpParams. A 32-bit value lies in the lower half of `value`.
enum BatchOperation : int {
  batch_wait_value_32 = 1,
  batch_write_value_32 = 2,
  batch_flush_remote_writes = 3,
  batch_wait_value_64 = 4,
  batch_write_value_64 = 5,
  batch_barrier = 6,
};
struct BatchMemoryOperation {
  int operation;
  DevicePtr address;
  std::uint64_t value;
  unsigned flags;
  DevicePtr alias;
  std::uint64_t pad;
};

// CUmodule, CUfunction, CUlibrary, CUkernel
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Library = struct CUlib_st*;
using Kernel = struct CUkern_st*;

// CUfunction_attribute
enum FunctionAttribute : int {
  function_max_threads_per_block = 0,
  function_shared_size = 1,
  function_const_size = 2,
  function_local_size = 3,
  function_registers = 4,
  function_ptx_version = 5,
  function_binary_version = 6,
  function_cache_mode_ca = 7,
  function_max_dynamic_shared_size = 8,
  function_preferred_shared_carveout = 9,
  function_attributes_end = 16,
};

// CUlaunchAttribute, CUlaunchConfig, and the markers of the packed way to hand over parameters
struct LaunchAttribute {
  int id;
  char pad[4];
  std::uint64_t value[8];
};
struct LaunchConfig {
  unsigned grid_x;
  unsigned grid_y;
  unsigned grid_z;
  unsigned block_x;
  unsigned block_y;
  unsigned block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
inline constexpr std::uintptr_t launch_parameters_end = 0;
inline constexpr std::uintptr_t launch_parameters_buffer = 1;
inline constexpr std::uintptr_t launch_parameters_size = 2;

// CUDA_MEMCPY2D
struct Copy2D {
  std::size_t from_x;
  std::size_t from_y;
  unsigned from_type;  // MemoryType
  const void* from_host;
  DevicePtr from_device;
  void* from_array;
  std::size_t from_pitch;
  std::size_t to_x;
  std::size_t to_y;
  unsigned to_type;
  void* to_host;
  DevicePtr to_device;
  void* to_array;
  std::size_t to_pitch;
  std::size_t width;
  std::size_t height;
};

// CUDA_MEMCPY3D; CUDA_MEMCPY3D_PEER has contexts where this has reserved words
struct Copy3D {
  std::size_t from_x;
  std::size_t from_y;
  std::size_t from_z;
  std::size_t from_level;
  unsigned from_type;
  const void* from_host;
  DevicePtr from_device;
  void* from_array;
  void* from_context;
  std::size_t from_pitch;
  std::size_t from_height;
  std::size_t to_x;
  std::size_t to_y;
  std::size_t to_z;
  std::size_t to_level;
  unsigned to_type;
  void* to_host;
  DevicePtr to_device;
  void* to_array;
  void* to_context;
  std::size_t to_pitch;
  std::size_t to_height;
  std::size_t width;
  std::size_t height;
  std::size_t depth;
};

// CUmemcpySrcAccessOrder, CUmemcpyAttributes
enum SourceAccess : int { source_in_stream_order = 1, source_during_call = 2, source_at_any_time = 3 };
struct CopyAttributes {
  int source_access;
  MemoryLocation from_hint;
  MemoryLocation to_hint;
  unsigned flags;
};

// CUmem_advise
enum Advice : int {
  advise_read_mostly = 1,
  advise_not_read_mostly = 2,
  advise_preferred_location = 3,
  advise_no_preferred_location = 4,
  advise_accessed_by = 5,
  advise_not_accessed_by = 6,
};

}  // namespace sluice::cuda
