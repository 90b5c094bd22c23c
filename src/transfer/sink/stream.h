// SPDX-License-Identifier: Apache-2.0
// Out of the places of a stream's channel into device memory, in the stream's order: by the kernel that stands in the
// program's stream (stream/channel/stream_copier.h). Chunk n goes into the place that is n ahead of the first.
//
//   open_   chunks before it have a place that is free; the device leaves places in any order
//   sent_   chunks before it have been given to the copier
//
// The thread that runs the transfer alone speaks to the copier. No thread waits for the last copy: the stream does.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/processor.h"
#include "base/spin_backoff.h"
#include "staging/slot_cursor.h"
#include "stream/channel/stream_copier.h"
#include "transfer/board.h"
#include "transfer/plan.h"

namespace sluice::transfer {

class StreamSink {
  using Chunks = Board<OneRange, gpu::stream_copy_slots>;

 public:
  // As many states as places. Each transfer makes them anew.
  static constexpr std::uint32_t board_depth = Chunks::depth;
  static constexpr bool caller_releases = true;

  void begin(Chunks& board, const ReadPlan& plan, stream::StreamCopier& copier) noexcept {
    copier_ = &copier;
    shift_ = plan.shift;
    for (std::uint32_t ahead = 0; ahead < gpu::stream_copy_slots; ++ahead) {
      places_[ahead] = copier.slot_ahead(ahead).data() + shift_;
    }
    update_room(board);
  }

  std::byte* place(std::uint32_t slot) const noexcept { return places_[slot]; }
  static std::uint32_t slot_for(const staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    return cursor.slot_for(chunk);
  }
  // The file has come to its end, or the copier has failed: no reader waits for room any more.
  bool is_lost() const noexcept { return over_.load(std::memory_order_acquire); }
  // Acquire: the reader of a chunk finds its place left by the device.
  bool has_room(const Chunks& /*board*/, const staging::SlotCursor& /*cursor*/, std::uint32_t chunk) const noexcept {
    return chunk < open_.load(std::memory_order_acquire) || is_lost();
  }
  static bool has_left(const Chunks& /*board*/, std::uint32_t /*chunk*/) noexcept { return true; }
  void update_room(Chunks& board) noexcept {
    std::uint32_t open = open_.load(std::memory_order_relaxed);
    while (open < board.chunks() && copier_->is_free_ahead(open - sent_)) ++open;
    open_.store(open, std::memory_order_release);
  }

  static constexpr bool by_kernel() noexcept { return false; }  // of the gather kernel's kind
  static void launch(const Chunks& /*board*/) noexcept {}
  static void learn(std::chrono::nanoseconds /*took*/) noexcept {}
  static void publish(const Chunks& /*board*/, std::uint32_t /*chunk*/, const ChunkState& /*state*/) noexcept {}
  static base::SpinBackoff backoff() noexcept { return {}; }
  static constexpr bool gathers() noexcept { return false; }
  static constexpr bool is_idle() noexcept { return true; }  // the caller may as well read

  void has_read_one(Chunks& board) noexcept { pump(board); }
  void has_waited(Chunks& board, int /*count*/) noexcept { pump(board); }
  void look_after(Chunks& board, base::SpinBackoff& backoff) noexcept {
    if (pump(board) || is_lost() || copier_->wait_a_moment(backoff)) return;
    failed_ = true;
    over_.store(true, std::memory_order_release);
  }
  bool has_sent_all(const Chunks& board) const noexcept { return sent_ >= board.chunks() || is_lost(); }
  void finish(const Chunks& /*board*/) noexcept { over_.store(true, std::memory_order_release); }
  // The copier knows what it has failed of.
  bool failure() const noexcept { return failed_; }

 private:
  // True when something was sent.
  bool pump(Chunks& board) noexcept {
    if (is_lost()) return false;
    const std::uint32_t before = sent_;
    bool ended = false;
    for (const std::uint32_t ready = board.layout().released_after(sent_); sent_ < ready && !ended; ++sent_) {
      const ChunkState& state = board.state(sent_);
      const Chunk chunk = board.layout()[sent_];
      if (state.length > 0) copier_->send(shift_ + chunk.lead, state.length, chunk.target);
      ended = state.length < chunk.length;
    }
    if (ended) {
      over_.store(true, std::memory_order_release);
    } else {
      update_room(board);
    }
    return sent_ > before;
  }

  stream::StreamCopier* copier_ = nullptr;
  std::uint32_t shift_ = 0;  // where chunks begin in their places
  std::uint32_t sent_ = 0;
  bool failed_ = false;
  std::array<std::byte*, gpu::stream_copy_slots> places_{};
  alignas(base::line_bytes) std::atomic<std::uint32_t> open_{0};
  std::atomic<bool> over_{false};
};

}  // namespace sluice::transfer
