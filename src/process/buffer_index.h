// SPDX-License-Identifier: Apache-2.0
// Which registered buffer an address lies in. Looked up on the I/O path without a lock; changed rarely, under one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/processor.h"

namespace sluice::process {

struct RegisteredRange {
  std::uint64_t base = 0;
  std::uint64_t end = 0;   // one behind the last byte
  void* handle = nullptr;  // in the table of buffers
};

// A sorted array that is replaced as a whole by every change. Readers announce themselves in one of two counts (by
// the parity of the epoch, spread over cache lines); a writer publishes the new array, flips the epoch and waits until
// the old parity has no readers: they hold the array for the length of one search, never for the length of an I/O.
// Ranges may overlap; two never have the same base.
class BufferIndex {
 public:
  BufferIndex();
  ~BufferIndex();
  BufferIndex(const BufferIndex&) = delete;
  BufferIndex& operator=(const BufferIndex&) = delete;

  // False when the base is taken.
  bool insert(const RegisteredRange& range);
  // The range that was removed, if any starts at `base`.
  std::optional<RegisteredRange> remove(std::uint64_t base);
  // Answers what was there.
  std::vector<RegisteredRange> clear();

  // The range that starts at `base`; else one that holds all of [address, address + size); else one that holds
  // `address`.
  std::optional<RegisteredRange> find(std::uint64_t base, std::uint64_t address, std::uint64_t size) noexcept;

  // All that share a byte with [begin, end). For the control plane.
  std::vector<RegisteredRange> overlapping(std::uint64_t begin, std::uint64_t end);

  void before_fork() { mutex_.lock(); }
  void after_fork(bool in_child);

 private:
  struct Entry {
    RegisteredRange range;
    std::uint64_t reach;  // the furthest end of this range and all before it: where a search backwards may stop
  };
  using Entries = std::vector<Entry>;

  static constexpr std::size_t shard_count = 16;
  struct alignas(base::line_bytes) Readers {
    std::array<std::atomic<std::uint64_t>, 2> counts{};
  };

  void publish(std::unique_ptr<Entries> next);

  std::mutex mutex_;
  std::atomic<Entries*> current_;
  std::atomic<unsigned> epoch_{0};
  std::array<Readers, shard_count> readers_;
};

}  // namespace sluice::process
