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

// Results (CUresult) by value; the public header only promises that CUresult is an int-sized type.
enum Result : int {
  success = 0,
  error_invalid_value = 1,
  error_out_of_memory = 2,
  error_not_initialized = 3,
  error_deinitialized = 4,
  error_no_device = 100,
  error_invalid_device = 101,
  error_invalid_context = 201,
  error_peer_access_unsupported = 217,
  error_operating_system = 304,
  error_invalid_handle = 400,
  error_illegal_state = 401,
  error_not_found = 500,
  error_not_ready = 600,
  error_illegal_address = 700,
  error_peer_access_already_enabled = 704,
  error_peer_access_not_enabled = 705,
  error_context_is_destroyed = 709,
  error_host_memory_already_registered = 712,
  error_host_memory_not_registered = 713,
  error_not_permitted = 800,
  error_not_supported = 801,
  error_stream_capture_unsupported = 900,
  error_stream_capture_invalidated = 901,
  error_stream_capture_merge = 902,
  error_stream_capture_unmatched = 903,
  error_stream_capture_unjoined = 904,
  error_stream_capture_isolation = 905,
  error_stream_capture_implicit = 906,
  error_captured_event = 907,
  error_stream_capture_wrong_thread = 908,
  error_unknown = 999,
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

}  // namespace sluice::cuda
