// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: address ranges that a program reserves, memory without an address, and the mappings that
// bring the two together.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "address_space.h"
#include "gpu/cuda_abi.h"
#include "shared_memory.h"

namespace sluice::softgpu {

// Memory without an address, made by cuMemCreate. It lives as long as a process holds its handle or has it mapped.
struct PhysicalMemory {
  // A piece of the device; where other processes may have it, it takes that much of the device, and lies elsewhere.
  PhysicalMemory(cuda::AllocationHandle number, const cuda::AllocationProperties& wanted, DeviceMemory& memory,
                 std::uint64_t size);
  // Made by another process, whose device it takes.
  PhysicalMemory(cuda::AllocationHandle number, int descriptor);

  std::byte* bytes() const { return shared ? shared->bytes() : storage->bytes(); }
  std::uint64_t size() const { return shared ? shared->size() : storage->size(); }

  const cuda::AllocationHandle handle;
  std::optional<DeviceStorage> storage;
  std::optional<SharedMemory> shared;
  cuda::AllocationProperties properties;
};

// Any thread may call; what is refused throws Refusal.
class VirtualMemory {
 public:
  // The address space that all reservations share; taken from the system with the first one.
  explicit VirtualMemory(std::uint64_t window_size) : window_size_(window_size) {}

  // At `wanted` when that is free, somewhere else otherwise.
  std::uint64_t reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wanted);
  void free_reservation(std::uint64_t start, std::uint64_t size);
  bool contains(std::uint64_t address) const;

  cuda::AllocationHandle create(std::uint64_t size, const cuda::AllocationProperties& properties);
  // What a descriptor of another process stands for.
  cuda::AllocationHandle import(int descriptor);
  void retain(const std::shared_ptr<PhysicalMemory>& memory);
  void release(cuda::AllocationHandle handle);
  std::shared_ptr<PhysicalMemory> find(cuda::AllocationHandle handle) const;

  void map(std::uint64_t start, std::uint64_t size, const std::shared_ptr<PhysicalMemory>& memory);
  void unmap(std::uint64_t start, std::uint64_t size);

 private:
  struct Held {
    std::shared_ptr<PhysicalMemory> memory;
    unsigned holders;
  };

  cuda::AllocationHandle keep(std::shared_ptr<PhysicalMemory> made);

  std::uint64_t window_size_;
  std::atomic<const AddressRange*> range_{nullptr};  // never freed
  mutable std::mutex mutex_;
  std::optional<Ranges> addresses_;
  std::map<std::uint64_t, std::uint64_t> reservations_;  // start -> size
  std::map<cuda::AllocationHandle, Held> handles_;
};

}  // namespace sluice::softgpu
