// SPDX-License-Identifier: Apache-2.0
// Every range of memory that the driver knows, by address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "gpu/cuda_abi.h"

namespace sluice::softgpu {

enum class MemoryKind {
  device,      // cuMemAlloc
  pooled,      // cuMemAllocAsync
  mapped,      // cuMemMap
  managed,     // cuMemAllocManaged
  pinned,      // cuMemHostAlloc, cuMemAllocHost
  registered,  // cuMemHostRegister
};

constexpr bool is_host(MemoryKind kind) {
  return kind == MemoryKind::pinned || kind == MemoryKind::registered;
}

// One of them. Shared by the table and by the copies under way, so that memory which is freed too early by a program
// is not handed out again in the middle of a copy. Constant once it is in the table, but for the atomic.
struct Allocation {
  MemoryKind kind{};
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  std::byte* bytes = nullptr;  // where the driver reaches it
  int device = 0;
  cuda::Context context = nullptr;  // null where no context owns the memory
  std::uint64_t workspace = 0;      // the life of that context; 0 for none
  unsigned flags = 0;               // those of cuMemHostAlloc
  std::uint64_t buffer_id = 0;
  std::uint64_t range_start = 0;  // the address range around it: the reservation of a mapping, else itself
  std::uint64_t range_size = 0;
  std::shared_ptr<void> storage;  // what is given back in the end
  // Which devices may read and write it, a bit a device: all, but for a mapping, which begins without.
  std::atomic<std::uint64_t> readers{~std::uint64_t{0}};
  std::atomic<std::uint64_t> writers{~std::uint64_t{0}};
  std::atomic<bool> sync_memops{false};

  std::uint64_t end() const { return start + size; }
};

class AllocationTable {
 public:
  // Gives it a buffer id, which is never used again.
  void insert(std::shared_ptr<Allocation> allocation);
  // As it is.
  void keep(std::shared_ptr<Allocation> allocation);
  // The allocation that holds the address; null when none does.
  std::shared_ptr<Allocation> find(std::uint64_t address) const;
  bool overlaps(std::uint64_t start, std::uint64_t size) const;
  // Takes out the allocation that starts there, when it exists and `accepts` says yes; null otherwise.
  std::shared_ptr<Allocation> remove(std::uint64_t start, const std::function<bool(const Allocation&)>& accepts);
  // All that lie wholly inside the range, when they cover it without a gap and none sticks out; empty otherwise.
  std::vector<std::shared_ptr<Allocation>> covering(std::uint64_t start, std::uint64_t size) const;
  // Takes out whatever a context owned when it ends.
  std::vector<std::shared_ptr<Allocation>> remove_all_of(std::uint64_t workspace);

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Allocation>> by_start_;
  std::uint64_t next_buffer_id_ = 1;
};

// What the program has freed, for as long as work that streams were given before may still reach it. The driver does
// not know such memory any more; kernels do.
class Leaving {
 public:
  explicit Leaving(std::shared_ptr<Allocation> freed);
  ~Leaving();
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

  const Allocation& memory() const { return *freed_; }

 private:
  const std::shared_ptr<Allocation> freed_;
};

// Takes the allocation that starts there off the table of the known ones, when it exists and `accepts` says yes; null
// otherwise.
std::shared_ptr<Leaving> take_leave(std::uint64_t start, const std::function<bool(const Allocation&)>& accepts);

}  // namespace sluice::softgpu
