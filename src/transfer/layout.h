// SPDX-License-Identifier: Apache-2.0
// What the chunks of a read are: where each comes from, where it goes to, and which are released one after the other.
//
// A layout answers for chunk n of chunks():
//   [n]             descriptor, offset, target, length
//   length(n)       the last of these alone
//   row(n)          the row that it is released in; row.released is the next one of it
//   is_alone_in_row(n)
//   behind(n)       the next one of its row
//   comes_short(n)  the first chunk of the row known to have come short: those behind it are not read
//   has_come(), is_dropped()   told when it is released, by one thread of the row at a time
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "base/processor.h"
#include "base/strong.h"
#include "gpu/memory.h"
#include "staging/staging_buffer.h"
#include "transfer/bond.h"
#include "transfer/file_range.h"
#include "transfer/plan.h"

namespace sluice::transfer {

struct Chunk {
  int fd;
  base::FileOffset at;
  std::uint32_t block;      // what O_DIRECT wants of offsets and lengths; 1 for a buffered descriptor
  std::uint64_t file_size;  // a hint; ~0 when unknown
  cuda::DevicePtr target;
  std::uint32_t length;
  std::uint32_t lead;    // where it begins in its place
  std::uint64_t memory;  // of the target; the same for all chunks of one range
};

// Chunks that are released in the order of their file: nothing behind its end, or behind an error, reaches the device.
struct Row {
  std::atomic<std::uint32_t> released{0};  // chunks before it hold their final bytes
  std::atomic<bool> releasing{false};
  std::uint32_t end = 0;
  // Touched by the releasing thread alone, handed on with `releasing`.
  bool ended = false;    // a chunk came short
  bool remains = false;  // and is left to others
};

// One range of a file, for one range of memory.
class OneRange {
 public:
  OneRange(const FileSpan& range, const ReadPlan& plan, cuda::DevicePtr to) noexcept
      : fd_(range.fd),
        block_(range.block),
        begin_(range.at.value - plan.skip),
        end_(plan.skip + range.length),
        file_size_(range.file_size),
        target_(to - plan.skip),
        skip_(plan.skip),
        chunk_bytes_(plan.chunk_bytes),
        chunks_(plan.chunks) {
    row_.end = chunks_;
  }

  std::uint32_t chunks() const noexcept { return chunks_; }
  Chunk operator[](std::uint32_t chunk) const noexcept {
    const std::uint32_t lead = chunk == 0 ? skip_ : 0;
    const std::uint64_t begin = std::uint64_t{chunk} * chunk_bytes_ + lead;
    const std::uint64_t end = std::min(begin - lead + chunk_bytes_, end_);
    return {fd_,
            base::FileOffset{begin_ + begin},
            block_,
            file_size_,
            target_ + begin,
            static_cast<std::uint32_t>(end - begin),
            lead,
            0};
  }
  std::uint32_t length(std::uint32_t chunk) const noexcept {
    const std::uint64_t begin = std::uint64_t{chunk} * chunk_bytes_;
    return static_cast<std::uint32_t>(std::min(begin + chunk_bytes_, end_) - begin) - (chunk == 0 ? skip_ : 0);
  }
  Row& row(std::uint32_t /*chunk*/) noexcept { return row_; }
  bool is_alone_in_row(std::uint32_t /*chunk*/) const noexcept { return chunks_ == 1; }
  static std::uint32_t behind(std::uint32_t chunk) noexcept { return chunk + 1; }
  std::atomic<std::uint32_t>& comes_short(std::uint32_t /*chunk*/) noexcept { return comes_short_; }
  // All chunks before it are released; the first `known` are.
  std::uint32_t released_after(std::uint32_t /*known*/) const noexcept {
    return row_.released.load(std::memory_order_acquire);
  }
  void stop() noexcept { comes_short_.store(0, std::memory_order_relaxed); }

  void has_come(std::uint32_t /*chunk*/, std::uint32_t length, int error, bool /*remains*/) noexcept {
    if (error != 0) error_ = error;
    total_ += length;
  }
  static void is_dropped(std::uint32_t /*chunk*/) noexcept {}
  base::Outcome answer() const noexcept {
    return total_ == 0 && error_ != 0 ? base::Outcome::system_error(error_) : base::Outcome::bytes(total_);
  }

 private:
  const int fd_;
  const std::uint32_t block_;
  const std::uint64_t begin_;  // in the file, of chunk 0's place
  const std::uint64_t end_;    // from there
  const std::uint64_t file_size_;
  const cuda::DevicePtr target_;
  const std::uint32_t skip_;
  const std::uint32_t chunk_bytes_;
  const std::uint32_t chunks_;
  int error_ = 0;
  std::uint64_t total_ = 0;
  alignas(base::line_bytes) std::atomic<std::uint32_t> comes_short_{~std::uint32_t{0}};
  alignas(base::line_bytes) Row row_;
};

// Many ranges of buffered files, each for a place of its own: a row each, or one for all where they are one transfer.
class ManyTargets {
 public:
  // A launch carries so many chunks at most, and before them *heads*: what its first items begin with, short, one for
  // each thread. So the device has something to carry as soon as it has begun.
  static constexpr std::uint32_t most_heads = most_scatter_helpers + 1;
  static constexpr std::uint32_t most_chunks = most_scatter_chunks;
  static_assert(most_heads + most_chunks <= staging::most_targets);

  // The next launch's: of buffered files, with heads.
  void cut(std::span<ReadItem> items, std::uint32_t chunk_bytes, Bond bond) noexcept;
  // Without: chunks begin on blocks of their files, but for each item's first one.
  void cut_in_blocks(std::span<ReadItem> items, std::uint32_t chunk_bytes, Bond bond) noexcept;
  void write_targets(std::span<std::uint64_t, staging::most_targets> targets) const noexcept;
  // Tells the items what came of them; of all, that the device has failed.
  void settle(cuda::Result failure) noexcept {
    for (std::size_t i = 0; i < items_.size(); ++i) settle(i, failure);
  }
  void settle(std::size_t item, cuda::Result failure = cuda::success) noexcept;

  std::span<ReadItem> items() const noexcept { return items_; }
  bool is_one_transfer() const noexcept { return in_one_row_; }
  std::size_t transfers() const noexcept { return in_one_row_ ? 1 : items_.size(); }
  std::size_t item_of(std::uint32_t chunk) const noexcept { return item_of_[chunk]; }
  // Without heads: all of an item is released; it is left to others; a chunk is released.
  bool is_through(std::size_t item) noexcept { return is_released(progress_[item].end - 1); }
  bool is_left(std::size_t item) const noexcept { return progress_[item].remains; }
  bool is_alone_in_row(std::uint32_t chunk) const noexcept {
    const Progress& progress = progress_[item_of_[chunk]];
    return !in_one_row_ && progress.end - progress.begin == 1;
  }
  bool is_released(std::uint32_t chunk) noexcept { return row(chunk).released.load(std::memory_order_acquire) > chunk; }
  bool are_alike_aligned() const noexcept;
  // Of all chunks, or a little more.
  std::uint64_t bytes() const noexcept { return std::uint64_t{chunks_} * chunk_bytes_; }
  std::uint32_t chunks() const noexcept { return chunks_; }
  Chunk operator[](std::uint32_t chunk) const noexcept {
    const ReadItem& item = items_[item_of_[chunk]];
    const Within within = place_of(chunk, item, progress_[item_of_[chunk]]);
    const cuda::DevicePtr target = item.to + within.begin;
    return {item.fd,
            base::FileOffset{item.at.value + within.begin},
            item.block,
            item.file_size,
            target,
            within.length,
            static_cast<std::uint32_t>(in_blocks_ ? (item.at.value + within.begin) % item.block : target % 16),
            item.memory};
  }
  std::uint32_t length(std::uint32_t chunk) const noexcept {
    return place_of(chunk, items_[item_of_[chunk]], progress_[item_of_[chunk]]).length;
  }
  Row& row(std::uint32_t chunk) noexcept { return first_of_row(chunk).row; }
  std::uint32_t behind(std::uint32_t chunk) const noexcept {
    return chunk < heads_ ? progress_[item_of_[chunk]].first : chunk + 1;
  }
  std::atomic<std::uint32_t>& comes_short(std::uint32_t chunk) noexcept { return first_of_row(chunk).comes_short; }
  std::uint32_t released_after(std::uint32_t known) noexcept {
    while (known < chunks_ && row(known).released.load(std::memory_order_acquire) > known) ++known;
    return known;
  }
  void stop() noexcept {
    for (std::size_t i = 0; i < items_.size(); ++i) progress_[i].comes_short.store(0, std::memory_order_relaxed);
  }
  void has_come(std::uint32_t chunk, std::uint32_t length, int error, bool remains) noexcept {
    Progress& progress = progress_[item_of_[chunk]];
    if (error != 0) progress.error = error;
    progress.remains = remains;
    progress.total += length;
  }
  void is_dropped(std::uint32_t chunk) noexcept {
    if (row(chunk).remains) progress_[item_of_[chunk]].remains = true;
  }

 private:
  // How an item of the present launch stands. Threads that read neighbours do not take its line from each other. Only
  // what comes before the row's state is looked at by threads that read.
  struct alignas(base::line_bytes) Progress {
    std::uint32_t begin = 0;  // the first of its chunks: its head, or the same as `first`
    std::uint32_t first = 0;  // of the others, which follow each other
    std::uint32_t end = 0;
    std::uint32_t head_bytes = 0;
    std::atomic<std::uint32_t> comes_short{0};
    Row row;  // of the item; of all, the first one's where they are one transfer
    bool remains = false;
    int error = 0;
    std::uint64_t total = 0;
  };

  struct Within {
    std::uint64_t begin;
    std::uint32_t length;
  };
  Within place_of(std::uint32_t chunk, const ReadItem& item, const Progress& progress) const noexcept {
    const bool is_head = chunk < progress.first;
    const std::uint64_t begin =
        is_head ? 0 : progress.head_bytes + std::uint64_t{chunk - progress.first} * chunk_bytes_;
    const std::uint32_t most = is_head ? progress.head_bytes : chunk_bytes_;
    return {begin, static_cast<std::uint32_t>(std::min<std::uint64_t>(item.length - begin, most))};
  }
  Progress& first_of_row(std::uint32_t chunk) noexcept { return progress_[in_one_row_ ? 0 : item_of_[chunk]]; }
  void begin_cut(std::span<ReadItem> items, std::uint32_t chunk_bytes, Bond bond, bool in_blocks) noexcept;
  void append(std::size_t item, std::uint32_t begin, std::uint32_t head_bytes) noexcept;
  void end_cut() noexcept;

  std::span<ReadItem> items_;
  bool in_one_row_ = false;
  bool in_blocks_ = false;
  std::uint32_t chunk_bytes_ = 0;
  std::uint32_t heads_ = 0;  // come first among the chunks
  std::uint32_t chunks_ = 0;
  std::array<Progress, most_chunks> progress_;
  std::array<std::uint16_t, staging::most_targets> item_of_{};
};

}  // namespace sluice::transfer
