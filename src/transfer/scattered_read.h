// SPDX-License-Identifier: Apache-2.0
// Many reads into device memory at once, each to a place of its own: many helpers fill a staging buffer chunk by chunk,
// one launch of the scatter kernel takes the chunks to where they belong.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "base/spin_backoff.h"
#include "base/strong.h"
#include "staging/slot_cursor.h"
#include "staging/staging_buffer.h"
#include "transfer/bond.h"
#include "transfer/device_read.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

// One of the reads; of a buffered descriptor.
struct ReadItem {
  int fd = -1;
  base::FileOffset at;
  std::uint64_t length = 0;
  std::uint64_t file_size = 0;  // a hint; ~0 when unknown
  cuda::DevicePtr to = 0;

  // What came of it. Memory behind the count is as it was, but where it is left for the device's sake.
  base::Outcome outcome = base::Outcome::bytes(0);
  bool remains = false;  // the rest is for others: the page cache does not have it, the device refused somebody's
};

// A item is at most so long.
inline constexpr std::uint64_t most_in_a_read_item = std::uint64_t{4} << 20U;

// The state of such reads. Large; used again and again, for one run at a time.
class ScatteredRead final : public workers::Job {
 public:
  // With the buffer's context current. All items' memory belongs to that context.
  void run(std::span<ReadItem> items, staging::StagingLease& lease, CopyEngine engine, Bond bond = Bond::none) noexcept;

  void run_helper(unsigned number) noexcept override;

 private:
  static constexpr unsigned most_helpers = 11;
  // A launch carries at most so many chunks of at most this size, and before them *heads*: what its first items
  // begin with, short, one for each thread. So the device has something to carry as soon as it has begun. (The targets
  // are known beforehand.)
  static constexpr std::uint32_t most_heads = most_helpers + 1;
  static constexpr std::uint32_t most_chunks = staging::most_targets - most_heads;
  static constexpr std::uint32_t largest_chunk = 64 << 10;

  // How an item of the present launch stands. Only the first line is looked at by threads that read. Chunks are
  // released item by item; those of one transfer in one row, which the first item's words tell of.
  struct Progress {
    std::uint32_t begin = 0;  // the first of its chunks: its head, or the same as `first`
    std::uint32_t first = 0;  // of the others, which follow each other
    std::uint32_t end = 0;
    std::uint32_t head_bytes = 0;
    std::atomic<std::uint32_t> comes_short{0};  // the first chunk known to have come short; those behind are not read
    std::atomic<std::uint32_t> released{0};     // its chunks before this one hold their final bytes
    std::atomic<bool> releasing{false};
    std::uint32_t row_end = 0;  // of the chunks that are released in a row
    // Touched by the releasing thread alone, handed on with `releasing`.
    bool ended = false;        // of the row
    bool row_remains = false;  // what has ended it is left
    bool remains = false;
    int error = 0;
    std::uint64_t total = 0;
  };

  struct ChunkState {
    std::atomic<std::uint32_t> ready{0};  // the number of the chunk that has been read
    std::uint32_t slot = 0;               // where it lies
    std::uint32_t length = 0;             // of what goes on to the device; final once released
    bool remains = false;
    std::int64_t outcome = 0;
  };

  std::size_t cut(std::span<ReadItem> items) noexcept;
  void number_chunks() noexcept;
  void write_targets() noexcept;
  void carry(staging::StagingLease& lease, bool by_kernel) noexcept;
  void settle() noexcept;
  void renew_states(std::uint32_t first) noexcept;

  bool by_kernel() const noexcept { return by_kernel_.load(std::memory_order_acquire); }
  std::uint32_t number(std::uint32_t chunk) const noexcept { return first_number_ + chunk; }
  std::uint64_t begin_of(std::uint32_t chunk) const noexcept {
    if (chunk < heads_) return 0;
    const Progress& progress = progress_[item_of_[chunk]];
    return progress.head_bytes + std::uint64_t{chunk - progress.first} * chunk_bytes_;
  }
  cuda::DevicePtr target_of(std::uint32_t chunk) const noexcept { return items_[item_of_[chunk]].to + begin_of(chunk); }
  // Of all chunks of the launch, or a little more.
  std::uint64_t bytes() const noexcept { return std::uint64_t{chunks_} * chunk_bytes_; }
  // Of a chunk that has been read, or is being read by this thread.
  ChunkState& state(std::uint32_t chunk) noexcept { return states_[chunk % gpu::ticket_slots]; }
  const ChunkState& state(std::uint32_t chunk) const noexcept { return states_[chunk % gpu::ticket_slots]; }
  std::byte* bytes_of(std::uint32_t chunk) const noexcept;
  std::uint32_t wanted(std::uint32_t chunk) const noexcept;
  static constexpr std::uint32_t lost = ~std::uint32_t{0};  // as a value of copied_
  bool is_lost() const noexcept { return copied_.load(std::memory_order_acquire) == lost; }
  bool has_left(std::uint32_t chunk) const noexcept;
  bool has_room(const staging::SlotCursor& cursor, std::uint32_t chunk) const noexcept;
  bool is_released(std::uint32_t chunk) const noexcept;
  bool next_is_ready(const Progress& row) const noexcept;
  Progress& row_of(std::uint32_t item) noexcept { return progress_[in_one_row_ ? 0 : item]; }
  const Progress& row_of(std::uint32_t item) const noexcept { return progress_[in_one_row_ ? 0 : item]; }

  void read(staging::SlotCursor& cursor, std::uint32_t chunk) noexcept;
  void release(std::uint32_t item) noexcept;
  void release_next(Progress& row) noexcept;
  void publish(std::uint32_t chunk, std::uint32_t length) noexcept;

  void launch() noexcept;
  bool revoke() noexcept;
  bool is_healthy() noexcept;
  void give_up(int result) noexcept;
  void look_after_device(base::SpinBackoff& backoff) noexcept;
  void pump() noexcept;
  int copy_released(std::uint32_t end) noexcept;
  void finish() noexcept;

  std::span<ReadItem> items_;  // of the present launch
  bool in_one_row_ = false;    // they are one transfer
  staging::StagingLease* lease_ = nullptr;
  std::byte* slots_ = nullptr;
  std::uint32_t chunk_bytes_ = 0;
  std::uint32_t stride_ = 0;
  std::uint32_t heads_ = 0;  // come first among the chunks
  std::uint32_t chunks_ = 0;
  staging::SlotLayout layout_;
  std::uint32_t first_number_ = 0;
  std::uint32_t last_number_ = 0;  // of all chunks so far, the largest that a slot may have
  std::uint32_t launch_id_ = 0;
  std::uint32_t issued_ = 0;
  std::chrono::steady_clock::time_point launched_;
  int failure_ = 0;

  alignas(64) std::atomic<std::uint32_t> next_{0};
  alignas(64) std::atomic<std::uint32_t> copied_{0};
  std::atomic<bool> by_kernel_{false};
  std::array<ChunkState, gpu::ticket_slots> states_;
  std::array<Progress, most_chunks> progress_;
  std::array<std::uint16_t, staging::most_targets> item_of_{};
};

}  // namespace sluice::transfer
