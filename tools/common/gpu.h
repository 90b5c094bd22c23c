// SPDX-License-Identifier: Apache-2.0
// Devices as tools that move bytes need them: a context a device, memory of several kinds, streams. All of it by the
// driver that choose_driver() has found, real or soft, resolved at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cufile.h"  // CUstream

namespace sluice::tools {

struct GpuCalls;  // gpu.cpp

// Throws ToolError where there is none.
int device_count();

// One device with its primary context, for as long as this lives. Throws ToolError, as everything here does.
class Gpu {
 public:
  explicit Gpu(int ordinal);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  int ordinal() const noexcept { return ordinal_; }
  std::string name() const;
  const GpuCalls& calls() const noexcept { return *calls_; }

  // Makes the context current on the calling thread, which has to happen before it uses anything of this device.
  void enter() const;
  // Lets this device reach the memory of every other one that it has a way to; how many there are.
  int reach_others() const;

  void copy_to_device(void* device, const void* host, std::size_t size) const;
  void copy_to_host(void* host, const void* device, std::size_t size) const;
  void copy_to_device(void* device, const void* host, std::size_t size, CUstream stream) const;
  void copy_to_host(void* host, const void* device, std::size_t size, CUstream stream) const;

 private:
  const GpuCalls* calls_;
  void* context_ = nullptr;
  int device_ = 0;
  int ordinal_;
};

// A stream of its own on the context that is current.
class GpuStream {
 public:
  explicit GpuStream(const Gpu& gpu);
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  ~GpuStream();

  CUstream get() const noexcept { return stream_; }
  void wait() const;

 private:
  const GpuCalls* calls_;
  CUstream stream_ = nullptr;
};

// The kinds of memory that cuFile works with, numbered as gdsio's -m has them.
enum class MemoryKind : std::uint8_t { device = 0, mapped = 1, pinned = 2, heap = 3, anonymous = 4 };

constexpr bool is_device(MemoryKind kind) {
  return kind == MemoryKind::device || kind == MemoryKind::mapped;
}
constexpr bool needs_gpu(MemoryKind kind) {
  return is_device(kind) || kind == MemoryKind::pinned;
}

// Memory of one kind, page-aligned. The interface is the same for all of them: bytes come in and go out by way of host
// memory, so code that fills or checks it need not know the kind.
class TransferMemory {
 public:
  virtual ~TransferMemory() = default;
  TransferMemory(const TransferMemory&) = delete;
  TransferMemory& operator=(const TransferMemory&) = delete;

  void* address() const noexcept { return address_; }
  std::size_t size() const noexcept { return size_; }

  virtual void put(std::size_t offset, const void* from, std::size_t size) = 0;
  virtual void get(std::size_t offset, void* to, std::size_t size) const = 0;

 protected:
  TransferMemory(void* address, std::size_t size) : address_(address), size_(size) {}

  void* address_;
  std::size_t size_;
};

// `gpu` may be nullptr where the kind needs none; its context has to be current on the calling thread.
std::unique_ptr<TransferMemory> make_memory(MemoryKind kind, const Gpu* gpu, std::size_t size);

}  // namespace sluice::tools
