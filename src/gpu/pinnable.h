// SPDX-License-Identifier: Apache-2.0
// Device memory as host addresses that O_DIRECT can pin: what can give them for a device is its provider. Two are
// known: what backs the soft GPU, and NVIDIA's UVM driver (gpu/uvm_provider.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "facts/buffer.h"
#include "gpu/cuda_api.h"

namespace sluice::gpu {

// A piece of device memory where the kernel can pin it. Given back to the provider that made it.
struct P2pMapping {
  std::byte* address = nullptr;
  std::uint64_t length = 0;
  std::uintptr_t token = 0;  // the provider's own

  explicit operator bool() const noexcept { return length != 0; }
};

// Device memory of our own, to try things on; page-aligned. Room for a trial that begins within a page.
inline constexpr std::uint64_t scratch_bytes = 65536 + 4096;
struct Scratch {
  facts::BufferFacts memory;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uintptr_t token = 0;  // the provider's own
};

class Provider {
 public:
  Provider() = default;
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  // For people: "soft GPU backing", "NVIDIA UVM device P2P (experimental)".
  virtual const char* name() const noexcept = 0;

  // What keeps it from serving the device at all: one sentence with the step that failed; empty when nothing does.
  // Control plane; may take milliseconds.
  virtual std::string refusal(int device) = 0;

  // From `address` on, at most `size` bytes of the memory, all of one allocation; fewer where they do not lie together
  // or not all can be mapped at a time: ask again behind them. Empty when this piece cannot be mapped. In force, and
  // the memory kept from being freed where the driver can do that, until it is released.
  virtual P2pMapping map(const facts::BufferFacts& memory, std::uint64_t address, std::uint64_t size) noexcept = 0;
  virtual void release(const P2pMapping& mapping) noexcept = 0;

  // With a context of the device current. Empty when there is no memory.
  virtual std::optional<Scratch> take_scratch(int device, std::uint64_t size) = 0;
  virtual void give_back(const Scratch& scratch) noexcept = 0;

  // The memory as a dma-buf descriptor, for kernels that take one in the place of pages: a ring registers it once for a
  // file, then reads and writes by offset (docs/roadmap.md). -1 where the driver has none. The caller closes it.
  virtual int export_dma_buf(const facts::BufferFacts& memory, std::uint64_t address, std::uint64_t size) noexcept = 0;

 protected:
  // Providers live as long as the process.
  ~Provider() = default;
};

// Device memory as cuMemAlloc gives it, to try things on. Kept for the next time.
class PlainScratch {
 public:
  // With a context of the device current. Empty when there is no memory.
  std::optional<Scratch> take(int device, std::uint64_t size);
  void give_back(const Scratch& scratch) noexcept;

 private:
  struct Kept {
    std::uintptr_t raw = 0;
    std::uint64_t size = 0;
    std::uint64_t id = 0;
  };
  std::mutex mutex_;
  std::array<std::vector<Kept>, max_devices> kept_;
};
PlainScratch& plain_scratch();

// The address by which modules of the kernel find this memory: the device's own; of the soft GPU, where its backing is
// mapped. 0 where it does not lie in one piece.
std::uint64_t kernel_address(const facts::BufferFacts& memory, std::uint64_t address, std::uint64_t size) noexcept;

// The one that serves this driver's devices. Null without a driver.
Provider* provider() noexcept;

// Whether the soft GPU's memory lies in a given file or device (SLUICE_SOFTGPU_BACKING), so that I/O can reach it.
// `address`: some memory of the device. Looked up once a device.
bool soft_memory_is_backed(int device, std::uint64_t address) noexcept;
// The same before there is any memory: takes some for a moment.
bool soft_device_is_backed(int device) noexcept;

}  // namespace sluice::gpu
