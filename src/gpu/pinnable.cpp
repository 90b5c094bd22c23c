// SPDX-License-Identifier: Apache-2.0
// The soft GPU as a provider, and the choice of one.
#include "gpu/pinnable.h"

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/never_destroyed.h"
#include "gpu/memory.h"
#include "gpu/session.h"
#include "gpu/uvm_provider.h"

namespace sluice::gpu {

namespace {

using facts::BufferFacts;
using facts::MemoryKind;

enum class Backed : std::uint8_t { unknown, no, yes };

std::array<std::atomic<Backed>, max_devices> backed{};

// The host address of a piece of the soft GPU's memory, and how many bytes lie together from there.
P2pMapping backing(std::uint64_t address, std::uint64_t size) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->soft_backing == nullptr) return {};
  void* host = nullptr;
  std::size_t length = 0;
  if (driver->soft_backing(address, size, &host, &length) != cuda::success) return {};
  return {static_cast<std::byte*>(host), length, 0};
}

constexpr std::uint64_t scratch_page = 4096;

Scratch describe(cuda::DevicePtr raw, std::uint64_t size) {
  return {inspect(raw), (raw + scratch_page - 1) / scratch_page * scratch_page, size, raw};
}

// What SLUICE_SOFTGPU_BACKING names is mapped by the soft driver, once and for all: nothing to do for a mapping. Where
// the memory is that of a PCI device, the kernel's P2PDMA gives its pages like any GPU's.
class SoftBacking final : public Provider {
 public:
  const char* name() const noexcept override { return "soft GPU backing"; }

  std::string refusal(int device) override {
    return soft_device_is_backed(device) ? "" : "the soft GPU's memory is the driver's own (SLUICE_SOFTGPU_BACKING)";
  }

  P2pMapping map(const BufferFacts& /*memory*/, std::uint64_t address, std::uint64_t size) noexcept override {
    return backing(address, size);
  }

  void release(const P2pMapping& /*window*/) noexcept override {}

  std::optional<Scratch> take_scratch(int device, std::uint64_t size) override {
    return plain_scratch().take(device, size);
  }
  void give_back(const Scratch& scratch) noexcept override { plain_scratch().give_back(scratch); }

  int export_dma_buf(const BufferFacts& /*memory*/, std::uint64_t /*address*/,
                     std::uint64_t /*size*/) noexcept override {
    return -1;
  }
};

SoftBacking& soft_backing() {
  static base::NeverDestroyed<SoftBacking> instance;
  return instance.get();
}

}  // namespace

std::optional<Scratch> PlainScratch::take(int device, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  if (static_cast<std::size_t>(device) >= kept_.size()) return std::nullopt;
  for (std::vector<Kept>& all = kept_[static_cast<std::size_t>(device)]; !all.empty();) {
    const Kept kept = all.back();
    all.pop_back();
    if (kept.size >= size && inspect(kept.raw).id == kept.id) return describe(kept.raw, size);
  }
  const CudaApi* const driver = gpu::driver();
  cuda::DevicePtr raw = 0;
  if (driver == nullptr || driver->mem_alloc == nullptr ||
      driver->mem_alloc(&raw, size + scratch_page) != cuda::success) {
    return std::nullopt;
  }
  return describe(raw, size);
}

// Freeing would wait for all work of the context, which may be waiting for us: it is kept for the next time, however
// many were out at once. It ends with its context.
void PlainScratch::give_back(const Scratch& scratch) noexcept {
  const std::lock_guard lock(mutex_);
  const auto slot = static_cast<std::size_t>(scratch.memory.device);
  try {
    if (slot < kept_.size()) kept_[slot].push_back({scratch.token, scratch.size, scratch.memory.id});
  } catch (...) {  // NOLINT(bugprone-empty-catch): without room to remember it, it stays until its context ends
  }
}

PlainScratch& plain_scratch() {
  static base::NeverDestroyed<PlainScratch> instance;
  return instance.get();
}

std::uint64_t kernel_address(const BufferFacts& memory, std::uint64_t address, std::uint64_t size) noexcept {
  if (!memory.soft) return address;
  const P2pMapping there = backing(address, size);
  return there && there.length >= size ? reinterpret_cast<std::uint64_t>(there.address) : 0;
}

Provider* provider() noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr) return nullptr;
  return driver->soft ? static_cast<Provider*>(&soft_backing()) : &uvm_provider();
}

bool soft_memory_is_backed(int device, std::uint64_t address) noexcept {
  if (device < 0 || static_cast<std::size_t>(device) >= max_devices) return false;
  auto& known = backed[static_cast<std::size_t>(device)];
  if (known.load(std::memory_order_relaxed) == Backed::unknown) {
    known.store(backing(address, 1) ? Backed::yes : Backed::no, std::memory_order_relaxed);
  }
  return known.load(std::memory_order_relaxed) == Backed::yes;
}

bool soft_device_is_backed(int device) noexcept {
  if (device < 0 || static_cast<std::size_t>(device) >= max_devices) return false;
  const Backed known = backed[static_cast<std::size_t>(device)].load(std::memory_order_relaxed);
  if (known != Backed::unknown) return known == Backed::yes;
  if (gpu::driver() == nullptr) return false;
  BufferFacts memory;
  memory.kind = MemoryKind::device;
  memory.device = device;
  const Session session(memory);
  if (session.status() != cuda::success) return false;
  const std::optional<Scratch> scratch = soft_backing().take_scratch(device, scratch_bytes);
  if (!scratch) return false;
  soft_backing().give_back(*scratch);
  return soft_memory_is_backed(device, scratch->address);
}

}  // namespace sluice::gpu
