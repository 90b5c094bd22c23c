// SPDX-License-Identifier: Apache-2.0
// Many writes from device memory at once: the copy engine brings their bytes into one staging buffer, many with one
// call, and many helpers write what has come.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"
#include "io/prefetch.h"
#include "io/private_files.h"
#include "staging/staging_buffer.h"
#include "transfer/bond.h"
#include "transfer/write_layout.h"
#include "transfer/write_pipeline.h"

namespace sluice::transfer {

// One of the writes. With O_DIRECT, place and length are whole blocks.
struct WriteItem {
  int fd = -1;
  base::FileOffset at;
  std::uint64_t length = 0;
  std::uint32_t block = 1;              // what O_DIRECT wants of offsets and lengths; 1 for a buffered descriptor
  io::PrivateFile* buffered = nullptr;  // the same file without O_DIRECT
  cuda::DevicePtr from = 0;
  std::uint64_t memory = 0;  // whose id the driver gives: a copy never leaves its allocation, whatever lies behind it
  std::uint64_t file = 0;    // the same for the same file, whatever descriptor it is written through
  io::PrefetchRange place;   // what may be prefetched of it

  // What came of it.
  base::Outcome outcome = base::Outcome::bytes(0);
  bool remains = false;  // the device has refused something: the rest is for others
};

inline constexpr std::uint64_t most_in_a_write_item = std::uint64_t{4} << 20U;
inline constexpr std::size_t most_write_items = 128;

// The chunks of such writes. Chunk n lies in place n % places, and is brought there when the chunk before it has been
// written from there.
class ManyWrites {
 public:
  void cut(std::span<WriteItem> items, Bond bond) noexcept;
  bool is_in_turns() const noexcept { return in_turns_; }

  std::uint32_t chunks() const noexcept { return chunks_; }
  WriteChunk operator[](std::uint32_t chunk) const noexcept {
    const WriteItem& item = items_[item_of_[chunk]];
    const std::uint64_t begin = std::uint64_t{chunk - progress_[item_of_[chunk]].first} * slot_bytes_;
    return {item.fd,           base::FileOffset{item.at.value + begin},
            item.from + begin, static_cast<std::uint32_t>(std::min<std::uint64_t>(item.length - begin, slot_bytes_)),
            item.block,        item.buffered,
            item.place,        item.memory};
  }
  std::size_t place(std::uint32_t chunk) const noexcept { return std::size_t{chunk % slot_count_} * slot_bytes_; }
  std::uint32_t behind(std::uint32_t chunk) const noexcept {
    const Progress& progress = progress_[item_of_[chunk]];
    if (chunk + 1 < progress.end) return chunk + 1;
    return progress.next == none ? no_chunk : progress_[progress.next].first;
  }
  std::span<WriteStream> streams() noexcept { return std::span(streams_).first(streams_count_); }
  bool is_free(std::uint32_t chunk) const noexcept {
    return written_[chunk % slot_count_].load(std::memory_order_acquire) == chunk;
  }
  bool may_write(std::uint32_t chunk) const noexcept { return !progress_[item_of_[chunk]].came_short && !is_broken(); }
  bool has_written(std::uint32_t chunk, std::uint64_t count, int error) noexcept;

  bool is_over() const noexcept { return told_ == items_.size(); }
  // Tells the listener of items that are through: written, or ended by an error.
  template <typename Listener>
  void tell(Listener& listener, bool at_once) noexcept;
  // The device has failed: what was not told of is left.
  void leave_rest() noexcept;

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
    bool is_told = false;
  };

  std::uint16_t stream_of(std::uint16_t item) noexcept;
  void append(std::uint16_t item) noexcept;
  bool can_take_turns() const noexcept;
  bool is_broken() const noexcept { return bond_ == Bond::one_transfer && broken_.load(std::memory_order_relaxed); }
  std::size_t take_ended(std::span<std::uint16_t, most_write_items> ended) noexcept;

  std::span<WriteItem> items_;
  Bond bond_ = Bond::none;
  bool in_turns_ = false;
  std::uint32_t slot_bytes_ = 0;
  std::uint32_t slot_count_ = 0;
  std::uint32_t chunks_ = 0;
  std::uint32_t streams_count_ = 0;
  std::size_t told_ = 0;
  std::atomic<bool> broken_{false};        // a part of one transfer has come short
  std::atomic<std::uint32_t> through_{0};  // items
  std::array<std::uint16_t, most_chunks> item_of_;
  std::array<std::atomic<std::uint32_t>, staging::most_slots>
      written_;  // the number of the next chunk that may come here
  std::array<Progress, most_write_items> progress_;
  std::array<WriteStream, most_write_items> streams_;
  std::array<std::uint16_t, most_write_items> last_of_;  // items of streams, while these are being made
};

// The state of such writes. Large; used again and again, for one run at a time.
class GatheredWrite {
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

 private:
  ManyWrites chunks_;
  WritePipeline<ManyWrites> pipeline_{chunks_};
};

}  // namespace sluice::transfer
