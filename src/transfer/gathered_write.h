// SPDX-License-Identifier: Apache-2.0
// Many writes from device memory at once: the copy engine brings their bytes into one staging buffer, many with one
// call, and many helpers write what has come.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "base/spin_backoff.h"
#include "base/strong.h"
#include "io/prefetch.h"
#include "io/private_files.h"
#include "staging/staging_buffer.h"
#include "transfer/bond.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

// One of the writes. With O_DIRECT, place and length are whole blocks.
struct WriteItem {
  int fd = -1;
  base::FileOffset at;
  std::uint64_t length = 0;
  std::uint32_t block = 1;              // what O_DIRECT wants of offsets and lengths; 1 for a buffered descriptor
  io::PrivateFile* buffered = nullptr;  // the same file without O_DIRECT
  cuda::DevicePtr from = 0;
  std::uint64_t file = 0;   // the same for the same file, whatever descriptor it is written through
  io::PrefetchRange place;  // what may be prefetched of it

  // What came of it.
  base::Outcome outcome = base::Outcome::bytes(0);
  bool remains = false;  // the device has refused something: the rest is for others
};

inline constexpr std::uint64_t most_in_a_write_item = std::uint64_t{4} << 20U;
inline constexpr std::size_t most_write_items = 128;

// The state of such writes. Large; used again and again, for one run at a time.
class GatheredWrite final : public workers::Job {
 public:
  // Told of items that are through while others are not, by the thread that runs.
  class Listener {
   public:
    virtual void through(std::span<const std::uint16_t> items) noexcept = 0;

   protected:
    ~Listener() = default;
  };

  // With the buffer's context current. All items' memory belongs to that context; at most most_write_items. Those that
  // the listener was not told of are left.
  void run(std::span<WriteItem> items, staging::StagingLease& lease, Listener& listener,
           Bond bond = Bond::none) noexcept;

  void run_helper(unsigned number) noexcept override;

 private:
  static constexpr std::uint32_t largest_chunk = 512 << 10;
  static constexpr std::uint32_t most_chunks = most_write_items * (most_in_a_write_item / largest_chunk);
  static constexpr std::uint16_t none = 0xffff;

  // How an item stands. Of the thread that has its stream, but for `is_through`.
  struct Progress {
    std::uint32_t first = 0;  // of its chunks
    std::uint32_t end = 0;
    std::uint16_t stream = 0;
    std::uint16_t next = none;  // item of the stream
    std::uint64_t done = 0;
    int error = 0;
    bool came_short = false;
    std::atomic<bool> is_through{false};
    bool notified = false;
  };

  // Chunks that are written one after the other: of one buffered file, since a file system lets one writer at a time
  // into it; else of one item.
  enum class Holder : std::uint8_t { nobody, caller, cursor };
  struct alignas(64) Stream {
    std::atomic<Holder> holder{Holder::nobody};
    std::atomic<std::uint32_t> next{0};  // chunk; written by the holder
    std::uint16_t last = none;           // item, while the streams are being made
    std::uint32_t items = 0;
  };
  static constexpr std::uint32_t no_chunk = ~std::uint32_t{0};

  // Where there is one stream, of large items whose places can be prefetched, several helpers write it in turn
  // (transfer/device_write.cpp tells why): each claims what lies together in the file, and prefetches its place until
  // the stream has come there. Then nobody holds the stream.
  struct ClaimedRun {
    std::uint32_t first = no_chunk;
    std::uint32_t end = no_chunk;
    io::Prefetch prefetch;
  };

  // Chunks that lie together in the file, and go into it with one call.
  struct ChunkRun {
    std::uint32_t end;  // the chunk behind them
    std::uint64_t length;
  };

  void cut() noexcept;
  std::uint16_t stream_of(std::uint16_t item) noexcept;
  void append(std::uint16_t item) noexcept;
  std::uint32_t length_of(std::uint32_t chunk) const noexcept;
  std::uint64_t begin_of(std::uint32_t chunk) const noexcept;
  std::span<std::byte> bytes_of(std::uint32_t chunk) const noexcept;
  bool is_free(std::uint32_t chunk) const noexcept;

  bool copy_more() noexcept;
  int copy_group(std::uint32_t end) noexcept;
  bool write_some(Holder as) noexcept;
  base::FileOffset place_of(std::uint32_t chunk) const noexcept;
  bool goes_with(std::uint32_t first, std::uint64_t length, std::uint32_t chunk) const noexcept;
  bool is_group_ready(const ClaimedRun& claimed) const noexcept;
  bool can_take_turns() const noexcept;
  ChunkRun group_at(std::uint32_t first) const noexcept;
  bool claim(ClaimedRun& claimed) noexcept;
  bool take_turn(ClaimedRun& claimed) noexcept;
  std::uint32_t write_what_has_come(std::uint32_t first, Holder as) noexcept;
  bool is_broken() const noexcept { return bond_ == Bond::one_transfer && broken_.load(std::memory_order_relaxed); }
  void write(std::uint32_t first, std::uint32_t end) noexcept;
  void write_rest_of(std::uint32_t chunk, std::uint64_t taken) noexcept;
  void is_written(std::uint32_t chunk) noexcept;
  std::uint32_t chunk_behind(std::uint32_t chunk) const noexcept;
  bool is_ready(std::uint32_t chunk) const noexcept;
  bool some_may_want_a_helper() const noexcept;
  void notify(Listener& listener) noexcept;
  void look_after_device(base::SpinBackoff& backoff) noexcept;
  void give_up(int result) noexcept;

  std::span<WriteItem> items_;
  staging::StagingLease* lease_ = nullptr;
  std::uint32_t slot_bytes_ = 0;
  std::uint32_t slot_count_ = 0;
  std::uint32_t chunks_ = 0;
  std::uint32_t issued_ = 0;  // chunks before it are on their way to the staging buffer, or there
  std::uint32_t streams_count_ = 0;
  std::size_t notified_ = 0;
  int failure_ = 0;
  std::atomic<bool> lost_{false};
  Bond bond_ = Bond::none;
  std::atomic<bool> broken_{false};        // a part of one transfer has come short
  std::atomic<std::uint32_t> through_{0};  // items
  bool in_turns_ = false;
  std::atomic<std::uint32_t> claimed_{0};  // the first chunk that nobody has claimed, where helpers take turns
  std::array<std::uint16_t, most_chunks> item_of_;
  std::array<std::atomic<std::uint32_t>, staging::most_slots>
      written_;  // the number of the next chunk that may come here
  std::array<Progress, most_write_items> progress_;
  std::array<Stream, most_write_items> streams_;
};

}  // namespace sluice::transfer
