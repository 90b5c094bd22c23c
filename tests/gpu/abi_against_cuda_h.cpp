// SPDX-License-Identifier: Apache-2.0
// Compares gpu/cuda_abi.h with NVIDIA's <cuda.h>, while compiling. Running it says whether there was one.
#include <cstdio>

#if __has_include(<cuda.h>)
#include <cuda.h>
#define SLUICE_COMPARES 1
#endif

#include "gpu/cuda_abi.h"

#ifdef SLUICE_COMPARES
namespace {

namespace cuda = sluice::cuda;

#define SAME(ours, theirs) static_assert(static_cast<long long>(cuda::ours) == static_cast<long long>(theirs))

SAME(success, CUDA_SUCCESS);
SAME(error_invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME(error_out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(error_not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(error_deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME(error_no_device, CUDA_ERROR_NO_DEVICE);
SAME(error_invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME(error_invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME(error_peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME(error_invalid_image, CUDA_ERROR_INVALID_IMAGE);
SAME(error_no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(error_invalid_ptx, CUDA_ERROR_INVALID_PTX);
SAME(error_unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(error_file_not_found, CUDA_ERROR_FILE_NOT_FOUND);
SAME(error_misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(error_launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME(error_operating_system, CUDA_ERROR_OPERATING_SYSTEM);
SAME(error_invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME(error_not_found, CUDA_ERROR_NOT_FOUND);
SAME(error_not_ready, CUDA_ERROR_NOT_READY);
SAME(error_illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(error_peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(error_peer_access_not_enabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
SAME(error_context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(error_host_memory_already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(error_host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME(error_not_permitted, CUDA_ERROR_NOT_PERMITTED);
SAME(error_not_supported, CUDA_ERROR_NOT_SUPPORTED);
SAME(error_stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(error_stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(error_illegal_state, CUDA_ERROR_ILLEGAL_STATE);
SAME(error_stream_capture_merge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME(error_stream_capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME(error_stream_capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME(error_stream_capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME(error_stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(error_captured_event, CUDA_ERROR_CAPTURED_EVENT);
SAME(error_stream_capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(error_unknown, CUDA_ERROR_UNKNOWN);

SAME(device_attribute_integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(device_attribute_pageable_memory_access, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
SAME(device_attribute_concurrent_managed_access, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
SAME(device_attribute_pageable_uses_host_page_tables, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
SAME(device_attribute_direct_managed_access_from_host, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
SAME(pointer_attribute_context, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(pointer_attribute_memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(pointer_attribute_device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME(pointer_attribute_host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME(pointer_attribute_sync_memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME(pointer_attribute_buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(pointer_attribute_is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(pointer_attribute_device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(pointer_attribute_is_legacy_ipc_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(pointer_attribute_range_start_addr, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(pointer_attribute_range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(pointer_attribute_mapped, CU_POINTER_ATTRIBUTE_MAPPED);
SAME(pointer_attribute_allowed_handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME(pointer_attribute_is_rdma_capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
SAME(pointer_attribute_access_flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS);
SAME(pointer_attribute_mempool_handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME(pointer_attribute_mapping_size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
SAME(pointer_attribute_mapping_base_addr, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);

SAME(memory_host, CU_MEMORYTYPE_HOST);
SAME(memory_device, CU_MEMORYTYPE_DEVICE);
SAME(memory_array, CU_MEMORYTYPE_ARRAY);
SAME(memory_unified, CU_MEMORYTYPE_UNIFIED);

SAME(stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME(host_register_portable, CU_MEMHOSTREGISTER_PORTABLE);
SAME(host_register_device_map, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(host_register_io_memory, CU_MEMHOSTREGISTER_IOMEMORY);
SAME(host_register_read_only, CU_MEMHOSTREGISTER_READ_ONLY);
SAME(host_alloc_portable, CU_MEMHOSTALLOC_PORTABLE);
SAME(host_alloc_device_map, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(host_alloc_write_combined, CU_MEMHOSTALLOC_WRITECOMBINED);
SAME(capture_none, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(capture_active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(capture_invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(capture_global, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(capture_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(capture_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(event_blocking_sync, CU_EVENT_BLOCKING_SYNC);
SAME(event_disable_timing, CU_EVENT_DISABLE_TIMING);
SAME(event_interprocess, CU_EVENT_INTERPROCESS);
SAME(attach_global, CU_MEM_ATTACH_GLOBAL);
SAME(attach_host, CU_MEM_ATTACH_HOST);
SAME(attach_single, CU_MEM_ATTACH_SINGLE);
SAME(proc_address_default, CU_GET_PROC_ADDRESS_DEFAULT);
SAME(proc_address_legacy_stream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME(proc_address_per_thread_stream, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
SAME(proc_found, CU_GET_PROC_ADDRESS_SUCCESS);
SAME(proc_not_found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(proc_version_not_sufficient, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

SAME(location_device, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(location_host, CU_MEM_LOCATION_TYPE_HOST);
SAME(allocation_pinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(handle_type_none, CU_MEM_HANDLE_TYPE_NONE);
SAME(access_none, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME(access_read, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(access_read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(granularity_minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(granularity_recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(pool_reuse_follow_event_dependencies, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME(pool_reuse_allow_opportunistic, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
SAME(pool_reuse_allow_internal_dependencies, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME(pool_release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME(pool_reserved_current, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME(pool_reserved_high, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
SAME(pool_used_current, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
SAME(pool_used_high, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SAME(wait_value_geq, CU_STREAM_WAIT_VALUE_GEQ);
SAME(wait_value_eq, CU_STREAM_WAIT_VALUE_EQ);
SAME(wait_value_and, CU_STREAM_WAIT_VALUE_AND);
SAME(wait_value_nor, CU_STREAM_WAIT_VALUE_NOR);
SAME(wait_value_flush, CU_STREAM_WAIT_VALUE_FLUSH);
SAME(write_value_default, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(write_value_no_memory_barrier, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
SAME(batch_wait_value_32, CU_STREAM_MEM_OP_WAIT_VALUE_32);
SAME(batch_write_value_32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
SAME(batch_flush_remote_writes, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES);
SAME(batch_wait_value_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
SAME(batch_write_value_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
SAME(batch_barrier, CU_STREAM_MEM_OP_BARRIER);

SAME(function_max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(function_shared_size, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(function_const_size, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
SAME(function_local_size, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(function_registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(function_ptx_version, CU_FUNC_ATTRIBUTE_PTX_VERSION);
SAME(function_binary_version, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
SAME(function_cache_mode_ca, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
SAME(function_max_dynamic_shared_size, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(function_preferred_shared_carveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME(advise_read_mostly, CU_MEM_ADVISE_SET_READ_MOSTLY);
SAME(advise_not_read_mostly, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
SAME(advise_preferred_location, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
SAME(advise_no_preferred_location, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
SAME(advise_accessed_by, CU_MEM_ADVISE_SET_ACCESSED_BY);
SAME(advise_not_accessed_by, CU_MEM_ADVISE_UNSET_ACCESSED_BY);

#define SAME_PLACE(ours, our_member, theirs, their_member) \
  static_assert(offsetof(cuda::ours, our_member) == offsetof(theirs, their_member))

static_assert(sizeof(cuda::AllocationProperties) == sizeof(CUmemAllocationProp));
SAME_PLACE(AllocationProperties, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(AllocationProperties, location, CUmemAllocationProp, location);
SAME_PLACE(AllocationProperties, compression, CUmemAllocationProp, allocFlags.compressionType);
SAME_PLACE(AllocationProperties, rdma_capable, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_PLACE(AllocationProperties, usage, CUmemAllocationProp, allocFlags.usage);
static_assert(sizeof(cuda::AccessDescription) == sizeof(CUmemAccessDesc));
SAME_PLACE(AccessDescription, flags, CUmemAccessDesc, flags);
static_assert(sizeof(cuda::PoolProperties) == sizeof(CUmemPoolProps));
SAME_PLACE(PoolProperties, location, CUmemPoolProps, location);
SAME_PLACE(PoolProperties, max_size, CUmemPoolProps, maxSize);
SAME_PLACE(PoolProperties, usage, CUmemPoolProps, usage);
static_assert(sizeof(cuda::BatchMemoryOperation) == sizeof(CUstreamBatchMemOpParams));
SAME_PLACE(BatchMemoryOperation, address, CUstreamBatchMemOpParams, waitValue.address);
SAME_PLACE(BatchMemoryOperation, value, CUstreamBatchMemOpParams, waitValue.value64);
SAME_PLACE(BatchMemoryOperation, flags, CUstreamBatchMemOpParams, waitValue.flags);
SAME_PLACE(BatchMemoryOperation, alias, CUstreamBatchMemOpParams, waitValue.alias);
static_assert(sizeof(cuda::LaunchConfig) == sizeof(CUlaunchConfig));
SAME_PLACE(LaunchConfig, shared_bytes, CUlaunchConfig, sharedMemBytes);
SAME_PLACE(LaunchConfig, stream, CUlaunchConfig, hStream);
SAME_PLACE(LaunchConfig, attributes, CUlaunchConfig, attrs);
SAME_PLACE(LaunchConfig, attribute_count, CUlaunchConfig, numAttrs);
static_assert(sizeof(cuda::LaunchAttribute) == sizeof(CUlaunchAttribute));
SAME_PLACE(LaunchAttribute, value, CUlaunchAttribute, value);
static_assert(sizeof(cuda::Copy2D) == sizeof(CUDA_MEMCPY2D));
SAME_PLACE(Copy2D, from_type, CUDA_MEMCPY2D, srcMemoryType);
SAME_PLACE(Copy2D, from_host, CUDA_MEMCPY2D, srcHost);
SAME_PLACE(Copy2D, from_device, CUDA_MEMCPY2D, srcDevice);
SAME_PLACE(Copy2D, from_pitch, CUDA_MEMCPY2D, srcPitch);
SAME_PLACE(Copy2D, to_x, CUDA_MEMCPY2D, dstXInBytes);
SAME_PLACE(Copy2D, to_host, CUDA_MEMCPY2D, dstHost);
SAME_PLACE(Copy2D, to_device, CUDA_MEMCPY2D, dstDevice);
SAME_PLACE(Copy2D, to_pitch, CUDA_MEMCPY2D, dstPitch);
SAME_PLACE(Copy2D, width, CUDA_MEMCPY2D, WidthInBytes);
SAME_PLACE(Copy2D, height, CUDA_MEMCPY2D, Height);
static_assert(sizeof(cuda::Copy3D) == sizeof(CUDA_MEMCPY3D) && sizeof(cuda::Copy3D) == sizeof(CUDA_MEMCPY3D_PEER));
SAME_PLACE(Copy3D, from_type, CUDA_MEMCPY3D, srcMemoryType);
SAME_PLACE(Copy3D, from_device, CUDA_MEMCPY3D, srcDevice);
SAME_PLACE(Copy3D, from_context, CUDA_MEMCPY3D_PEER, srcContext);
SAME_PLACE(Copy3D, from_height, CUDA_MEMCPY3D, srcHeight);
SAME_PLACE(Copy3D, to_x, CUDA_MEMCPY3D, dstXInBytes);
SAME_PLACE(Copy3D, to_device, CUDA_MEMCPY3D, dstDevice);
SAME_PLACE(Copy3D, to_context, CUDA_MEMCPY3D_PEER, dstContext);
SAME_PLACE(Copy3D, to_height, CUDA_MEMCPY3D, dstHeight);
SAME_PLACE(Copy3D, width, CUDA_MEMCPY3D, WidthInBytes);
SAME_PLACE(Copy3D, depth, CUDA_MEMCPY3D, Depth);
static_assert(sizeof(cuda::AllocationHandle) == sizeof(CUmemGenericAllocationHandle));

static_assert(sizeof(cuda::Device) == sizeof(CUdevice));
static_assert(sizeof(cuda::DevicePtr) == sizeof(CUdeviceptr));
static_assert(sizeof(cuda::Uuid) == sizeof(CUuuid));

// Since CUDA 12.8.
#if CUDA_VERSION >= 12080
SAME(source_in_stream_order, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
SAME(source_during_call, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
SAME(source_at_any_time, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
static_assert(sizeof(cuda::CopyAttributes) == sizeof(CUmemcpyAttributes));
SAME_PLACE(CopyAttributes, to_hint, CUmemcpyAttributes, dstLocHint);
SAME_PLACE(CopyAttributes, flags, CUmemcpyAttributes, flags);
#endif

}  // namespace
#endif

int main() {
#ifdef SLUICE_COMPARES
  std::printf("gpu/cuda_abi.h agrees with <cuda.h> of CUDA %d\n", CUDA_VERSION);
  return 0;
#else
  std::printf("skipped: no <cuda.h> on this machine; give its folder with -DSLUICE_CUDA_INCLUDE=\n");
  return 77;
#endif
}
