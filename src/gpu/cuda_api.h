// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, found at run time. One table of functions; absent, the library serves host memory.
#pragma once

#include <cstddef>
#include <string>

#include "gpu/cuda_abi.h"

namespace sluice::gpu {

// What is kept for each device has room for so many.
inline constexpr std::size_t max_devices = 64;

// The functions that we call, by the name of the symbol that we resolve. A null pointer means that this driver does
// not have it; only those marked optional may be null in a usable table.
struct CudaApi {
  cuda::Result (*init)(unsigned) = nullptr;
  cuda::Result (*get_error_name)(cuda::Result, const char**) = nullptr;
  cuda::Result (*get_error_string)(cuda::Result, const char**) = nullptr;
  cuda::Result (*device_get)(cuda::Device*, int) = nullptr;
  cuda::Result (*device_get_count)(int*) = nullptr;
  cuda::Result (*device_get_name)(char*, int, cuda::Device) = nullptr;
  cuda::Result (*device_get_uuid)(cuda::Uuid*, cuda::Device) = nullptr;
  cuda::Result (*device_get_pci_bus_id)(char*, int, cuda::Device) = nullptr;
  cuda::Result (*primary_retain)(cuda::Context*, cuda::Device) = nullptr;
  cuda::Result (*primary_release)(cuda::Device) = nullptr;
  cuda::Result (*ctx_push)(cuda::Context) = nullptr;
  cuda::Result (*ctx_pop)(cuda::Context*) = nullptr;
  cuda::Result (*ctx_get_current)(cuda::Context*) = nullptr;
  cuda::Result (*ctx_get_device)(cuda::Device*) = nullptr;
  cuda::Result (*device_get_attribute)(int*, int, cuda::Device) = nullptr;   // optional
  cuda::Result (*ctx_get_id)(cuda::Context, unsigned long long*) = nullptr;  // optional (12.0)
  cuda::Result (*mem_host_register)(void*, std::size_t, unsigned) = nullptr;
  cuda::Result (*mem_host_unregister)(void*) = nullptr;
  cuda::Result (*pointer_get_attributes)(unsigned, int*, void**, cuda::DevicePtr) = nullptr;
  cuda::Result (*memcpy_htod)(cuda::DevicePtr, const void*, std::size_t) = nullptr;
  cuda::Result (*memcpy_dtoh)(void*, cuda::DevicePtr, std::size_t) = nullptr;
  cuda::Result (*memcpy_htod_async)(cuda::DevicePtr, const void*, std::size_t, cuda::Stream) = nullptr;
  cuda::Result (*memcpy_dtoh_async)(void*, cuda::DevicePtr, std::size_t, cuda::Stream) = nullptr;
  cuda::Result (*stream_create)(cuda::Stream*, unsigned) = nullptr;
  cuda::Result (*stream_synchronize)(cuda::Stream) = nullptr;
  cuda::Result (*stream_is_capturing)(cuda::Stream, int*) = nullptr;
  cuda::Result (*stream_get_ctx)(cuda::Stream, cuda::Context*) = nullptr;
  cuda::Result (*stream_get_id)(cuda::Stream, unsigned long long*) = nullptr;  // optional (12.0)
  cuda::Result (*exchange_capture_mode)(int*) = nullptr;

  // For handing device memory to the kernel (gpu/pinnable.h); all optional.
  cuda::Result (*mem_alloc)(cuda::DevicePtr*, std::size_t) = nullptr;
  cuda::Result (*soft_backing)(cuda::DevicePtr, std::size_t, void**, std::size_t*) = nullptr;
  cuda::Result (*mem_create)(unsigned long long*, std::size_t, const cuda::AllocationProperties*,
                             unsigned long long) = nullptr;
  cuda::Result (*mem_release)(unsigned long long) = nullptr;
  cuda::Result (*mem_retain_handle)(unsigned long long*, void*) = nullptr;
  cuda::Result (*mem_export)(void*, unsigned long long, int, unsigned long long) = nullptr;
  cuda::Result (*mem_reserve)(cuda::DevicePtr*, std::size_t, std::size_t, cuda::DevicePtr,
                              unsigned long long) = nullptr;
  cuda::Result (*mem_map)(cuda::DevicePtr, std::size_t, std::size_t, unsigned long long, unsigned long long) = nullptr;
  cuda::Result (*mem_get_access)(unsigned long long*, const cuda::MemoryLocation*, cuda::DevicePtr) = nullptr;
  cuda::Result (*pool_get_access)(int*, cuda::MemoryPool, cuda::MemoryLocation*) = nullptr;
  cuda::Result (*mem_set_access)(cuda::DevicePtr, std::size_t, const cuda::AccessDescription*, std::size_t) = nullptr;
  cuda::Result (*mem_handle_for_range)(void*, cuda::DevicePtr, std::size_t, int, unsigned long long) = nullptr;
  cuda::Result (*flush_rdma_writes)(int, int) = nullptr;

  // For staging buffers (gpu/staging.h). All optional: without them every copy goes through a bounce buffer.
  cuda::Result (*mem_host_get_device_pointer)(cuda::DevicePtr*, void*, unsigned) = nullptr;
  cuda::Result (*memcpy_batch_async)(cuda::DevicePtr*, cuda::DevicePtr*, std::size_t*, std::size_t,
                                     cuda::CopyAttributes*, std::size_t*, std::size_t, std::size_t*,
                                     cuda::Stream) = nullptr;  // 12.8
  cuda::Result (*memcpy_batch_async_v2)(cuda::DevicePtr*, cuda::DevicePtr*, std::size_t*, std::size_t,
                                        cuda::CopyAttributes*, std::size_t*, std::size_t,
                                        cuda::Stream) = nullptr;  // 13.0
  cuda::Result (*stream_query)(cuda::Stream) = nullptr;
  cuda::Result (*pointer_set_attribute)(const void*, int, cuda::DevicePtr) = nullptr;
  cuda::Result (*stream_write_value_32)(cuda::Stream, cuda::DevicePtr, std::uint32_t, unsigned) = nullptr;
  cuda::Result (*module_load_data)(cuda::Module*, const void*) = nullptr;
  cuda::Result (*module_get_function)(cuda::Function*, cuda::Module, const char*) = nullptr;
  cuda::Result (*launch_kernel)(cuda::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                cuda::Stream, void**, void**) = nullptr;

  // For work on the program's own streams (gpu/stream_copy.h). All optional: without them such work waits for its
  // stream.
  cuda::Result (*stream_wait_value_32)(cuda::Stream, cuda::DevicePtr, std::uint32_t, unsigned) = nullptr;
  cuda::Result (*stream_batch_mem_op)(cuda::Stream, unsigned, cuda::BatchMemoryOperation*, unsigned) = nullptr;
  cuda::Result (*launch_host_function)(cuda::Stream, void (*)(void*), void*) = nullptr;
  cuda::Result (*stream_create_with_priority)(cuda::Stream*, unsigned, int) = nullptr;
  cuda::Result (*stream_destroy)(cuda::Stream) = nullptr;
  cuda::Result (*stream_priority_range)(int*, int*) = nullptr;

  // For what other devices are to do with it (gpu/peers.h, gpu/peer_memory.h); all optional.
  cuda::Result (*device_can_access_peer)(int*, cuda::Device, cuda::Device) = nullptr;
  cuda::Result (*device_get_p2p_attribute)(int*, int, cuda::Device, cuda::Device) = nullptr;
  cuda::Result (*primary_get_state)(cuda::Device, unsigned*, int*) = nullptr;
  cuda::Result (*mem_unmap)(cuda::DevicePtr, std::size_t) = nullptr;
  cuda::Result (*mem_address_free)(cuda::DevicePtr, std::size_t) = nullptr;
  cuda::Result (*mem_get_granularity)(std::size_t*, const cuda::AllocationProperties*, int) = nullptr;
  cuda::Result (*ctx_enable_peer_access)(cuda::Context, unsigned) = nullptr;
  cuda::Result (*memcpy_2d_async)(const cuda::Copy2D*, cuda::Stream) = nullptr;
  cuda::Result (*memcpy_dtod_async)(cuda::DevicePtr, cuda::DevicePtr, std::size_t, cuda::Stream) = nullptr;

  bool soft = false;  // it is our own stand-in
};

// The driver, once it has been attached; one atomic load, for the I/O path.
const CudaApi* driver() noexcept;

// Attaches to the driver that this process has already loaded, and does not load one itself (but for the soft GPU,
// where SLUICE_SOFTGPU=1 asks for it): memory of a device can only come from a program that has. So host-only programs
// never pay for, or wake, a GPU. Control plane; any thread.
const CudaApi* attach_driver() noexcept;

// Loads and initialises the driver where it is not loaded: for calls that ask about devices. Null when there is none.
const CudaApi* load_driver() noexcept;

// How many devices there are; 0 without a driver.
int device_count() noexcept;
// The same of a driver that is asked until it has some.
int known_device_count() noexcept;

// Why SLUICE_SOFTGPU=1 could not be followed, or the driver is of no use, in one sentence; empty when all is well.
std::string driver_refusal();

// "CUDA_ERROR_INVALID_VALUE (1)".
std::string error_name(cuda::Result result);

// A child of fork has no driver when its parent had initialised one; a child of any other parent may have its own.
bool driver_is_lost() noexcept;
// Called by core's fork handlers.
void driver_before_fork() noexcept;
void driver_after_fork(bool in_child) noexcept;

}  // namespace sluice::gpu
