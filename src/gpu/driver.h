// The CUDA driver, found at run time. One table of functions; absent, the library serves host memory.
#pragma once

#include <cstddef>
#include <string>

#include "gpu/cuda_abi.h"

namespace sluice::gpu {

// The functions that we call, by the name of the symbol that we resolve. A null pointer means that this driver does
// not have it; only those marked optional may be null in a usable table.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*get_error_name)(int, const char**) = nullptr;
  int (*get_error_string)(int, const char**) = nullptr;
  int (*device_get)(cuda::Device*, int) = nullptr;
  int (*device_get_count)(int*) = nullptr;
  int (*device_get_name)(char*, int, cuda::Device) = nullptr;
  int (*device_get_uuid)(cuda::Uuid*, cuda::Device) = nullptr;
  int (*device_get_pci_bus_id)(char*, int, cuda::Device) = nullptr;
  int (*primary_retain)(cuda::Context*, cuda::Device) = nullptr;
  int (*primary_release)(cuda::Device) = nullptr;
  int (*ctx_push)(cuda::Context) = nullptr;
  int (*ctx_pop)(cuda::Context*) = nullptr;
  int (*ctx_get_current)(cuda::Context*) = nullptr;
  int (*ctx_get_device)(cuda::Device*) = nullptr;
  int (*ctx_get_id)(cuda::Context, unsigned long long*) = nullptr;  // optional (12.0)
  int (*mem_host_register)(void*, std::size_t, unsigned) = nullptr;
  int (*mem_host_unregister)(void*) = nullptr;
  int (*pointer_get_attributes)(unsigned, int*, void**, cuda::DevicePtr) = nullptr;
  int (*memcpy_htod)(cuda::DevicePtr, const void*, std::size_t) = nullptr;
  int (*memcpy_dtoh)(void*, cuda::DevicePtr, std::size_t) = nullptr;
  int (*memcpy_htod_async)(cuda::DevicePtr, const void*, std::size_t, cuda::Stream) = nullptr;
  int (*memcpy_dtoh_async)(void*, cuda::DevicePtr, std::size_t, cuda::Stream) = nullptr;
  int (*stream_create)(cuda::Stream*, unsigned) = nullptr;
  int (*stream_destroy)(cuda::Stream) = nullptr;
  int (*stream_synchronize)(cuda::Stream) = nullptr;
  int (*stream_is_capturing)(cuda::Stream, int*) = nullptr;
  int (*stream_get_ctx)(cuda::Stream, cuda::Context*) = nullptr;
  int (*stream_get_id)(cuda::Stream, unsigned long long*) = nullptr;  // optional (12.0)
  int (*exchange_capture_mode)(int*) = nullptr;

  bool soft = false;  // it is our own stand-in
};

// The driver, once it has been attached; one atomic load, for the I/O path.
const Driver* driver() noexcept;

// Attaches to the driver that this process has already loaded, and does not load one itself: memory of a device can
// only come from a program that has. So host-only programs never pay for, or wake, a GPU. Control plane; any thread.
const Driver* attach_driver() noexcept;

// Loads and initialises the driver when nobody has: for calls that ask about devices. Null when there is none.
const Driver* load_driver() noexcept;

// How many devices there are; 0 without a driver.
int device_count() noexcept;

// "CUDA_ERROR_INVALID_VALUE (1)".
std::string error_name(int result);

// The child of a fork has no driver any more. Called by core's fork handler.
void forget_driver_after_fork() noexcept;

}  // namespace sluice::gpu
