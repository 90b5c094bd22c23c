// SPDX-License-Identifier: Apache-2.0
// The GPU by the driver API alone, found at run time: no toolkit is needed to build, and the soft GPU serves as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cufile.h"  // CUstream

namespace sluice::bench {

using DevicePtr = std::uint64_t;

// The calls of libcuda.so.1 that the client makes. Null: this driver does not have it (the soft GPU has no kernels).
struct DriverCalls {
  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*device_get_count)(int*);
  int (*device_get)(int*, int);
  int (*device_name)(char*, int, int);
  int (*device_attribute)(int*, int, int);
  int (*primary_retain)(void**, int);
  int (*set_current)(void*);
  int (*error_name)(int, const char**);
  int (*allocate)(DevicePtr*, std::size_t);
  int (*release)(DevicePtr);
  int (*host_allocate)(void**, std::size_t, unsigned);
  int (*host_release)(void*);
  int (*host_device_pointer)(DevicePtr*, void*, unsigned);
  int (*copy_in)(DevicePtr, const void*, std::size_t);
  int (*copy_out)(void*, DevicePtr, std::size_t);
  int (*copy_in_async)(DevicePtr, const void*, std::size_t, CUstream);
  int (*copy_out_async)(void*, DevicePtr, std::size_t, CUstream);
  int (*fill)(DevicePtr, unsigned char, std::size_t);
  int (*stream_create)(CUstream*, unsigned);
  int (*stream_destroy)(CUstream);
  int (*stream_synchronize)(CUstream);
  int (*stream_write_value_32)(CUstream, DevicePtr, std::uint32_t, unsigned);
  int (*stream_wait_value_32)(CUstream, DevicePtr, std::uint32_t, unsigned);
  int (*event_create)(void**, unsigned);
  int (*event_destroy)(void*);
  int (*event_record)(void*, CUstream);
  int (*event_synchronize)(void*);
  int (*module_load)(void**, const void*, unsigned, int*, void**);
  int (*module_function)(void**, void*, const char*);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**);
};

// A device and its primary context, current on the thread that made this and on each that calls enter().
class Gpu {
 public:
  explicit Gpu(int ordinal = 0);  // throws Trouble

  const DriverCalls& calls() const { return calls_; }
  // Throws Trouble with the call's name and CUDA's own word when `result` is not 0.
  void want(int result, const char* call) const;
  void enter() const;

  int count() const;  // of all devices that the process sees
  bool is_soft() const { return soft_; }
  bool runs_kernels() const { return calls_.module_load != nullptr && calls_.launch != nullptr && !soft_; }
  std::string name() const;
  int driver_version() const;
  int multiprocessors() const;

 private:
  DriverCalls calls_{};
  void* context_ = nullptr;
  int device_ = 0;
  bool soft_ = false;
};

// Memory of the device.
class DeviceMemory {
 public:
  DeviceMemory(const Gpu& gpu, std::size_t size);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();

  DevicePtr address() const { return address_; }
  void* pointer(std::size_t offset = 0) const { return reinterpret_cast<void*>(address_ + offset); }

 private:
  const Gpu* gpu_;
  DevicePtr address_ = 0;
};

// Pinned memory of the host.
class PinnedMemory {
 public:
  PinnedMemory(const Gpu& gpu, std::size_t size);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  ~PinnedMemory();

  void* data() const { return data_; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), size_}; }
  // Its address for kernels, and for values that a stream writes.
  DevicePtr seen_by_device() const;

 private:
  const Gpu* gpu_;
  void* data_ = nullptr;
  std::size_t size_;
};

// A stream that does not wait for the default stream.
class OwnStream {
 public:
  explicit OwnStream(const Gpu& gpu);
  OwnStream(OwnStream&& other) noexcept;
  OwnStream& operator=(OwnStream&&) = delete;
  ~OwnStream();

  CUstream get() const { return stream_; }
  void wait() const;

 private:
  const Gpu* gpu_;
  CUstream stream_ = nullptr;
};

}  // namespace sluice::bench
