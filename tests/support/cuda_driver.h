// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as the tests call it: the few functions they need, found in libcuda.so.1 at run time, so that one
// binary runs on a real GPU, on the soft GPU and without either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cufile.h"

namespace sluice::support {

using CudaContext = void*;
using CudaAddress = std::uint64_t;

// The entry points. Those up to the line are there in every driver that the tests accept; the others may be null.
struct CudaDriver {
  int (*init)(unsigned) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*primary_retain)(CudaContext*, int) = nullptr;
  int (*primary_release)(int) = nullptr;
  int (*context_create)(CudaContext*, unsigned, int) = nullptr;
  int (*context_destroy)(CudaContext) = nullptr;
  int (*context_push)(CudaContext) = nullptr;
  int (*context_pop)(CudaContext*) = nullptr;
  int (*context_current)(CudaContext*) = nullptr;
  int (*context_set)(CudaContext) = nullptr;
  int (*context_synchronize)() = nullptr;
  int (*allocate)(CudaAddress*, std::size_t) = nullptr;
  int (*release)(CudaAddress) = nullptr;
  int (*allocate_managed)(CudaAddress*, std::size_t, unsigned) = nullptr;
  int (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  int (*release_host)(void*) = nullptr;
  int (*to_device)(CudaAddress, const void*, std::size_t) = nullptr;
  int (*to_host)(void*, CudaAddress, std::size_t) = nullptr;
  int (*fill)(CudaAddress, unsigned char, std::size_t) = nullptr;
  int (*stream_create)(CUstream*, unsigned) = nullptr;
  int (*stream_destroy)(CUstream) = nullptr;
  int (*stream_synchronize)(CUstream) = nullptr;
  int (*to_host_async)(void*, CudaAddress, std::size_t, CUstream) = nullptr;
  int (*fill_async)(CudaAddress, unsigned char, std::size_t, CUstream) = nullptr;
  // ------------------------------------------------------------------------
  int (*mem_create)(std::uint64_t*, std::size_t, const void*, std::uint64_t) = nullptr;
  int (*mem_release)(std::uint64_t) = nullptr;
  int (*mem_reserve)(CudaAddress*, std::size_t, std::size_t, CudaAddress, std::uint64_t) = nullptr;
  int (*mem_free_reserved)(CudaAddress, std::size_t) = nullptr;
  int (*mem_map)(CudaAddress, std::size_t, std::size_t, std::uint64_t, std::uint64_t) = nullptr;
  int (*mem_unmap)(CudaAddress, std::size_t) = nullptr;
  int (*mem_set_access)(CudaAddress, std::size_t, const void*, std::size_t) = nullptr;
  int (*mem_export)(void*, std::uint64_t, int, std::uint64_t) = nullptr;
  int (*mem_import)(std::uint64_t*, void*, int) = nullptr;
  int (*allocate_async)(CudaAddress*, std::size_t, CUstream) = nullptr;
  int (*release_async)(CudaAddress, CUstream) = nullptr;
  int (*begin_capture)(CUstream, int) = nullptr;
  int (*end_capture)(CUstream, void**) = nullptr;
  int (*graph_destroy)(void*) = nullptr;
  int (*memory_info)(std::size_t*, std::size_t*) = nullptr;

  bool soft = false;  // it is the soft GPU
  int devices = 0;
  std::string description;  // for people: "NVIDIA H200", "soft GPU"
};

// nullptr where there is no usable driver or no device. The first call initialises it.
const CudaDriver* cuda();

// The primary context of a device, retained for the life of the process.
CudaContext primary_context(int device);

// Makes a context current for a scope, whatever the thread had before.
class ContextScope {
 public:
  explicit ContextScope(CudaContext context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
};

// A non-blocking stream on device 0, destroyed at the end of the scope.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return stream_; }
  void synchronize() const;

 private:
  CUstream stream_{};
};

}  // namespace sluice::support
