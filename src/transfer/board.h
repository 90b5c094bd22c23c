// SPDX-License-Identifier: Apache-2.0
// Who reads which chunk, and in which order chunks go on. Any thread claims the next chunk, in the order of their
// numbers, and reads it; those of a row are released in the row's order, by one thread at a time. A chunk that comes
// short ends its row: those behind it are not read, and are released empty.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/processor.h"
#include "gpu/staging.h"
#include "transfer/layout.h"

namespace sluice::transfer {

struct ChunkState {
  std::atomic<std::uint32_t> begun{0};  // the number of the chunk that is being read
  std::atomic<std::uint32_t> ready{0};  // of the one that has been read
  std::uint32_t slot = 0;               // where it lies
  std::uint32_t length = 0;             // of what goes on; final once released
  std::int64_t outcome = 0;             // bytes, or -errno
};

// The states of `Depth` chunks are kept at a time: a sink has no room for a chunk before the one so far in front of it
// has gone on.
template <typename Layout, std::uint32_t Depth = gpu::ticket_slots>
class Board {
 public:
  static constexpr std::uint32_t depth = Depth;

  explicit Board(Layout& layout) noexcept : layout_(layout) {}

  // A run; the first chunk is the caller's. Chunk n has the number `first + n`: what lies here of runs before may have
  // these numbers where others were numbered meanwhile. States are left alone as long as numbers grow: the thread that
  // reads a chunk has its state in a cache.
  void begin(std::uint32_t first) noexcept {
    if (first <= last_number_) {
      for (ChunkState& state : states_) {
        state.begun.store(0, std::memory_order_relaxed);
        state.ready.store(0, std::memory_order_relaxed);
      }
    }
    first_number_ = first;
    last_number_ = first + layout_.chunks() - 1;
    next_.store(1, std::memory_order_relaxed);
  }

  Layout& layout() const noexcept { return layout_; }
  std::uint32_t chunks() const noexcept { return layout_.chunks(); }
  std::uint32_t first_number() const noexcept { return first_number_; }
  std::uint32_t number(std::uint32_t chunk) const noexcept { return first_number_ + chunk; }
  // Of a chunk that has been read, or is being read by this thread.
  ChunkState& state(std::uint32_t chunk) noexcept { return states_[chunk % depth]; }

  std::uint32_t claim() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }
  std::uint32_t unclaimed() const noexcept { return next_.load(std::memory_order_relaxed); }

  bool is_wanted(std::uint32_t chunk) const noexcept {
    return chunk < layout_.comes_short(chunk).load(std::memory_order_relaxed);
  }
  // Of a layout of one row.
  bool comes_short() const noexcept { return layout_.comes_short(0).load(std::memory_order_relaxed) < chunks(); }

  void begin_reading(std::uint32_t chunk, std::uint32_t slot) noexcept {
    ChunkState& state = this->state(chunk);
    state.slot = slot;
    state.outcome = 0;
    state.begun.store(number(chunk), std::memory_order_relaxed);
  }
  void has_read(std::uint32_t chunk, std::uint32_t wanted, std::int64_t outcome) noexcept {
    state(chunk).outcome = outcome;
    if (outcome < static_cast<std::int64_t>(wanted)) end_row_at(chunk);
  }
  void is_ready(std::uint32_t chunk) noexcept { state(chunk).ready.store(number(chunk), std::memory_order_seq_cst); }
  // A reader has begun to read it, and is still at it.
  bool is_being_read(std::uint32_t chunk) noexcept {
    return state(chunk).begun.load(std::memory_order_relaxed) == number(chunk) &&
           state(chunk).ready.load(std::memory_order_relaxed) != number(chunk);
  }

  // Releases what has become ready of the chunk's row; `publish(chunk, state)` is told of each before it counts. Others
  // leave their chunks to the thread that releases. None is forgotten: it was made ready before the flag was looked at,
  // and the releasing thread looks again after it has taken its flag down.
  template <typename Source, typename Publish>
  void release(std::uint32_t chunk, const Source& source, const Publish& publish) noexcept {
    Row& row = layout_.row(chunk);
    while (next_is_ready(row) && !row.releasing.exchange(true, std::memory_order_seq_cst)) {
      while (next_is_ready(row)) release_next(row, source, publish);
      row.releasing.store(false, std::memory_order_seq_cst);
    }
  }

  // Of a chunk that is alone in its row: the thread that has read it releases it, and no other looks at the row.
  template <typename Source, typename Publish>
  void release_alone(std::uint32_t chunk, const Source& source, const Publish& publish) noexcept {
    release_next(layout_.row(chunk), source, publish);
  }

 private:
  void end_row_at(std::uint32_t chunk) noexcept {
    std::atomic<std::uint32_t>& end = layout_.comes_short(chunk);
    std::uint32_t known = end.load(std::memory_order_relaxed);
    while (chunk < known && !end.compare_exchange_weak(known, chunk, std::memory_order_relaxed)) {
    }
  }

  // A thread that has made its chunk ready looks behind that at how far the row is: a look that came before might find
  // the row at a chunk whose state has been used again, and no thread would release this one.
  bool next_is_ready(const Row& row) noexcept {
    const std::uint32_t chunk = row.released.load(std::memory_order_seq_cst);
    return chunk < row.end && state(chunk).ready.load(std::memory_order_seq_cst) == number(chunk);
  }

  template <typename Source, typename Publish>
  void release_next(Row& row, const Source& source, const Publish& publish) noexcept {
    const std::uint32_t chunk = row.released.load(std::memory_order_relaxed);
    ChunkState& state = this->state(chunk);
    state.length = 0;
    if (row.ended) {
      layout_.is_dropped(chunk);
    } else {
      if (state.outcome > 0) state.length = static_cast<std::uint32_t>(state.outcome);
      row.ended = state.length < layout_.length(chunk);
      row.remains = source.leaves(state.outcome);
      const bool failed = state.outcome < 0 && !row.remains;
      layout_.has_come(chunk, state.length, failed ? static_cast<int>(-state.outcome) : 0, row.remains);
    }
    publish(chunk, state);
    row.released.store(layout_.behind(chunk), std::memory_order_release);
  }

  Layout& layout_;
  std::uint32_t first_number_ = 0;
  std::uint32_t last_number_ = 0;                                 // of all runs so far, the largest
  alignas(base::line_bytes) std::atomic<std::uint32_t> next_{1};  // the first chunk that is not claimed
  std::array<ChunkState, depth> states_;
};

}  // namespace sluice::transfer
