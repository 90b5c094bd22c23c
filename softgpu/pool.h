// SPDX-License-Identifier: Apache-2.0
// Memory pools: what stream-ordered allocation takes from and gives back to.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "address_space.h"
#include "gpu/cuda_abi.h"

namespace sluice::softgpu {

// Memory that a stream has freed, but not reached yet, serves later allocations on the same stream; memory that was
// reached stays with the pool up to the release threshold and serves any stream. Any thread may call.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  MemoryPool(int device, DeviceMemory& memory, std::uint64_t limit = 0)
      : device_(device), memory_(memory), limit_(limit) {}

  int device() const { return device_; }
  // What a device's kernels may do with what comes from here.
  void let(int device, int access);
  int access_of(int device) const;
  cuda::MemoryPool handle() { return reinterpret_cast<cuda::MemoryPool>(this); }

  // Throws Refusal (out of memory).
  std::shared_ptr<DeviceStorage> take(std::uint64_t size, std::uint64_t stream);
  // The program has freed it on the stream, in which the free has still to come. A ticket for free_reached().
  std::uint64_t free_later(std::shared_ptr<DeviceStorage> storage, std::uint64_t stream);
  // The stream has come to that free. Nothing to do when the memory was taken again meanwhile.
  void free_reached(std::uint64_t ticket);
  // Freed without a stream.
  void free_now(std::shared_ptr<DeviceStorage> storage);
  void trim_to(std::uint64_t bytes);

  std::uint64_t attribute(int number) const;
  void set_attribute(int number, std::uint64_t value);

 private:
  struct Freed {
    std::shared_ptr<DeviceStorage> storage;
    std::uint64_t stream;  // 0 where every stream may have it
    std::uint64_t ticket;  // tells this free from an earlier one of the same memory
  };
  void keep_or_release(std::shared_ptr<DeviceStorage> storage);
  void count_use(std::uint64_t bytes);

  const int device_;
  DeviceMemory& memory_;
  const std::uint64_t limit_;  // 0: as much as the device has
  mutable std::mutex mutex_;
  std::vector<Freed> freed_;
  std::uint64_t next_ticket_ = 1;
  std::uint64_t reserved_ = 0;
  std::uint64_t reserved_high_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t used_high_ = 0;
  std::uint64_t release_threshold_ = 0;
  std::map<int, int> access_;                       // of other devices
  std::array<std::uint64_t, 4> reuse_{0, 1, 1, 1};  // by attribute number; noted, and they change nothing here
};

}  // namespace sluice::softgpu
