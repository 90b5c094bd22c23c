// SPDX-License-Identifier: Apache-2.0
// Out of staging buffers into device memory by several links at once: the target's own, and those of neighbours, whose
// memory the bytes pass (staging/neighbour.h). Chunks go in pieces, in their order, each to the link that has least to
// do; so a busy neighbour gets few.
//
//                 own link
//   chunks  ---------------------------------------------> target
//      |   host side                    target side           ^
//      +-------------> neighbour's memory --------------------+
//
// The thread that runs the transfer gives out pieces and looks after them; nothing waits on a device for another one.
// A neighbour can be relieved of what it has not brought into its own memory at any time: the bytes are still in
// their places, and the own link carries them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "base/processor.h"
#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "gpu/peer_memory.h"
#include "observe/copy_counters.h"
#include "staging/more_buffers.h"
#include "staging/neighbour.h"
#include "staging/slot_cursor.h"
#include "staging/staging_buffer.h"
#include "transfer/board.h"
#include "transfer/piece_line.h"
#include "transfer/plan.h"
#include "workers/slow_disk_gauge.h"

namespace sluice::transfer {

class PeerGpuSink {
  using Chunks = Board<OneRange>;
  using Clock = std::chrono::steady_clock;

 public:
  // Without neighbours: the own link alone, with as many buffers as there are.
  void begin(const Chunks& board, const ReadPlan& plan, staging::StagingLease& own,
             std::span<staging::NeighbourLease> neighbours, std::span<staging::StagingLease* const> more,
             const workers::SlowDiskGauge::Scope* past_cache = nullptr) noexcept {
    static_assert(OwnLink::room > staging::Neighbours::most * staging::NeighbourLease::most_pieces + own_pieces);
    plan_ = &plan;
    past_cache_ = past_cache;
    chunks_ = board.chunks();
    own_.lease = &own;
    buffers_[buffer_count_++] = own.bytes().data();
    for (staging::NeighbourLease& neighbour : neighbours) {
      links_[link_count_++].lease = &neighbour;
      buffers_[buffer_count_++] = neighbour.host_side().bytes().data();
      buffers_[buffer_count_++] = neighbour.target_side().bytes().data();
    }
    for (staging::StagingLease* const lease : more) buffers_[buffer_count_++] = lease->bytes().data();
    slots_a_buffer_ = static_cast<std::uint32_t>(staging::staging_bytes / plan.stride);
    std::atomic_ref(own.words().copied).store(0, std::memory_order_relaxed);
  }

  std::byte* place(std::uint32_t slot) const noexcept {
    return buffers_[slot / slots_a_buffer_] + std::size_t{slot % slots_a_buffer_} * plan_->stride;
  }
  static std::uint32_t slot_for(const staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    return cursor.slot_for(chunk);
  }
  bool is_lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  // Has the chunk left its place?
  bool has_left(const Chunks& board, std::uint32_t chunk) const noexcept {
    return left_[chunk % board.depth].load(std::memory_order_acquire) > chunk || is_lost();
  }
  bool has_room(const Chunks& board, const staging::SlotCursor& cursor, std::uint32_t chunk) const noexcept {
    if (chunk >= board.depth && !has_left(board, chunk - board.depth)) return false;
    const std::optional<std::uint32_t> before = cursor.in_the_way_of(chunk);
    return !before || has_left(board, *before);
  }
  void update_room(Chunks& board) noexcept { pump(board); }
  static void publish(const Chunks& /*board*/, std::uint32_t /*chunk*/, const ChunkState& /*state*/) noexcept {}

  // Has no link anything to do?
  bool is_idle() const noexcept {
    return own_.count() == 0 && std::ranges::all_of(std::span(links_).first(link_count_),
                                                    [](const Link& link) { return link.waiting() == 0; });
  }

  // Of kernels that wait for chunks: there are none.
  static constexpr bool by_kernel() noexcept { return false; }
  static constexpr bool gathers() noexcept { return false; }
  static void launch(const Chunks& /*board*/) noexcept {}
  static void revoke(const Chunks& /*board*/) noexcept {}
  static void learn(std::chrono::nanoseconds /*took*/) noexcept {}
  template <typename Release>
  static void look_in(const Chunks& /*board*/, const Release& /*release*/) noexcept {}
  static base::SpinBackoff backoff() noexcept { return {}; }

  void has_read_one(Chunks& board) noexcept { pump(board); }
  void has_waited(Chunks& board, int /*count*/) noexcept { pump(board); }
  void look_after(Chunks& board, base::SpinBackoff& backoff) noexcept {
    backoff.wait(past_cache_ != nullptr ? past_cache_->waits() : base::WaitMode::spin);
    const std::uint32_t before = issued_ + done_;
    pump(board);
    if (issued_ + done_ != before) {
      backoff = {};  // there is more to come soon
      return;
    }
    relieve_the_slow(board);
    if (backoff.long_since()) check_health(board);
  }
  // Returns when all that was released is in place.
  void finish(Chunks& board) noexcept {
    base::SpinBackoff backoff;
    while (!is_lost() && done_ < chunks_) {
      pump(board);
      if (done_ < chunks_) look_after(board, backoff);
    }
    if (!is_lost()) observe::count_copy(observe::CopyCounter::copy_engine);
  }
  cuda::Result failure() const noexcept { return failure_; }
  // What neighbours have carried.
  std::uint64_t lent_bytes() const noexcept { return lent_bytes_; }

 private:
  // Chunks that go together.
  struct Piece {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
    std::uint32_t bytes = 0;
    std::uint32_t mark = 0;  // of the copy that it waits for
    cuda::DevicePtr target = 0;
    Clock::time_point begun{};
  };
  static constexpr std::uint32_t own_pieces = 4;
  static constexpr std::size_t most_buffers = 1 + 2 * staging::Neighbours::most + staging::MoreBuffers::most;
  struct OwnLink : PieceLine<Piece, 32> {
    staging::StagingLease* lease = nullptr;
    std::uint32_t marks = 0;
  };
  // Pieces from `begin` on are on their way to the target, those from `arrived` on to the neighbour.
  struct Link : PieceLine<Piece, staging::NeighbourLease::most_pieces> {
    staging::NeighbourLease* lease = nullptr;
    std::uint32_t arrived = 0;
    std::uint32_t host_marks = 0;
    std::uint32_t target_marks = 0;
    bool is_out = false;  // it gets nothing more

    std::uint32_t waiting() const noexcept { return end - arrived; }
  };

  // Of one chunk a copy, of neighbours in memory one together.
  static constexpr std::size_t most_copies = 16;
  struct Copies {
    std::array<gpu::Copy, most_copies> all;
    std::size_t count = 0;
    std::span<const gpu::Copy> span() const noexcept { return {all.data(), count}; }
  };

  void leave(const Chunks& board, const Piece& piece) noexcept {
    for (std::uint32_t chunk = piece.first; chunk < piece.end; ++chunk) {
      left_[chunk % board.depth].store(chunk + 1, std::memory_order_release);
    }
  }

  void pump(Chunks& board) noexcept {
    if (is_lost()) return;
    collect_own(board);
    for (Link& link : std::span(links_).first(link_count_)) collect(board, link);
    const std::uint32_t ready = board.layout().released_after(issued_);
    while (issued_ < ready && !is_lost()) {
      if (board.state(issued_).length == 0) {
        leave(board, {.first = issued_, .end = issued_ + 1});
        ++issued_;
        ++done_;
        continue;
      }
      Link* const link = least_busy();
      const std::uint32_t busy = link == nullptr ? own_.count() : link->waiting();
      if (link == nullptr && busy >= own_pieces) return;
      // Copies cost calls, all of them this thread's: were they small wherever a link idles, it would not keep up,
      // links would idle more, and copies stay small.
      if (ready - issued_ < plan_->chunks_a_copy && ready != chunks_) return;
      const std::uint64_t most = std::uint64_t{plan_->chunks_a_copy} * plan_->chunk_bytes;
      if (link == nullptr) {
        issue_own(board, next_piece(board, ready, most));
      } else {
        issue(board, *link, next_piece(board, ready, std::min(most, link->lease->piece_bytes())));
      }
    }
  }

  // Null: the own link.
  Link* least_busy() noexcept {
    Link* best = nullptr;
    std::uint32_t least = own_.count();
    for (Link& link : std::span(links_).first(link_count_)) {
      if (link.is_out || link.count() == Link::room || link.waiting() >= least) continue;
      if (link.lease->is_wanted_elsewhere()) continue;
      best = &link;
      least = link.waiting();
    }
    return best;
  }

  // Takes released chunks; the first one has bytes.
  Piece next_piece(Chunks& board, std::uint32_t ready, std::uint64_t most) noexcept {
    Piece piece{.first = issued_, .end = issued_, .target = board.layout()[issued_].target};
    while (piece.end < ready && piece.end - piece.first < most_copies) {
      const std::uint32_t length = board.state(piece.end).length;
      if (piece.bytes > 0 && (length == 0 || piece.bytes + length > most)) break;
      piece.bytes += length;
      ++piece.end;
    }
    issued_ = piece.end;
    return piece;
  }

  Copies copies_of(Chunks& board, const Piece& piece, cuda::DevicePtr to) const noexcept {
    Copies copies;
    for (std::uint32_t chunk = piece.first; chunk < piece.end; ++chunk) {
      const ChunkState& state = board.state(chunk);
      const std::byte* const from = place(state.slot) + board.layout()[chunk].lead;
      if (copies.count > 0) {
        gpu::Copy& last = copies.all[copies.count - 1];
        if (last.from + last.size == from) {
          last.size += state.length;
          to += state.length;
          continue;
        }
      }
      copies.all[copies.count++] = {to, from, state.length};
      to += state.length;
    }
    return copies;
  }

  void issue_own(Chunks& board, Piece piece) noexcept {
    gpu::Staging& device = own_.lease->device();
    piece.mark = ++own_.marks;
    cuda::Result result = device.copy_to_device(copies_of(board, piece, piece.target).span());
    if (result == cuda::success) result = device.mark(&own_.lease->words().copied, piece.mark);
    if (result != cuda::success) return give_up(board, result);
    own_.at(own_.end++) = piece;
  }

  void issue(Chunks& board, Link& link, Piece piece) noexcept {
    staging::StagingLease& lease = link.lease->host_side();
    piece.begun = Clock::now();
    const Copies copies = copies_of(board, piece, link.lease->place(link.end));
    cuda::Result result = cuda::success;
    {
      const gpu::ContextScope there(link.lease->context());
      result = there.status();
      if (result == cuda::success) result = lease.device().copy_to_device(copies.span());
      piece.mark = link.host_marks + 1;
      if (result == cuda::success) result = lease.device().mark(&lease.words().copied, piece.mark);
    }
    if (result == cuda::success) {
      link.host_marks = piece.mark;
      link.at(link.end++) = piece;
      return;
    }
    link.lease->is_broken();
    take_back(board, link);
    issue_own(board, piece);
  }

  void collect_own(const Chunks& board) noexcept {
    while (own_.count() > 0 && own_.lease->has_copied(own_.at(own_.begin).mark)) {
      const Piece& piece = own_.at(own_.begin++);
      leave(board, piece);
      done_ += piece.end - piece.first;
    }
  }

  void collect(Chunks& board, Link& link) noexcept {
    for (; link.waiting() > 0 && link.lease->host_side().has_copied(link.at(link.arrived).mark); ++link.arrived) {
      Piece& piece = link.at(link.arrived);
      staging::StagingLease& lease = link.lease->target_side();
      cuda::Result result = lease.device().copy_on_device(piece.target, link.lease->place(link.arrived), piece.bytes);
      if (result == cuda::success) result = lease.device().mark(&lease.words().copied, link.target_marks + 1);
      if (result != cuda::success) {
        lease.give_up();  // a copy that has no mark may be on its way
        return take_back(board, link);
      }
      piece.mark = ++link.target_marks;
      leave(board, piece);
      lent_bytes_ += piece.bytes;
    }
    for (; link.begin != link.arrived && link.lease->target_side().has_copied(link.at(link.begin).mark); ++link.begin) {
      done_ += link.at(link.begin).end - link.at(link.begin).first;
    }
  }

  // What has not arrived at the neighbour goes by the own link, and so does all that comes.
  void take_back(Chunks& board, Link& link) noexcept {
    link.is_out = true;
    const std::uint32_t end = link.end;
    if (link.waiting() > 0) link.lease->leaves_late(link.host_marks);
    link.end = link.arrived;
    for (std::uint32_t number = link.arrived; number != end && !is_lost(); ++number) {
      issue_own(board, link.at(number));
    }
  }

  // The own link has nothing to do, and a neighbour has kept a piece for long: its places may be what others wait for.
  void relieve_the_slow(Chunks& board) noexcept {
    constexpr auto long_time = std::chrono::microseconds(500);
    if (is_lost() || own_.count() > 0) return;
    for (Link& link : std::span(links_).first(link_count_)) {
      if (link.waiting() > 0 && Clock::now() - link.at(link.arrived).begun > long_time) take_back(board, link);
    }
  }

  void check_health(Chunks& board) noexcept {
    if (is_lost()) return;
    if (const cuda::Result result = own_.lease->device().health(); result != cuda::success)
      return give_up(board, result);
    for (Link& link : std::span(links_).first(link_count_)) {
      if (link.waiting() == 0 || link.lease->host_side().device().health() == cuda::success) continue;
      link.lease->is_broken();
      take_back(board, link);
    }
  }

  // The target refuses, or is lost. No thread leaves while a device may still write.
  void give_up(Chunks& board, cuda::Result result) noexcept {
    failure_ = result;
    own_.lease->give_up();
    for (Link& link : std::span(links_).first(link_count_)) {
      link.lease->target_side().give_up();
      if (link.waiting() > 0) link.lease->leaves_late(link.host_marks);
    }
    board.layout().stop();
    lost_.store(true, std::memory_order_release);
  }

  const ReadPlan* plan_ = nullptr;
  const workers::SlowDiskGauge::Scope* past_cache_ = nullptr;
  std::uint32_t chunks_ = 0;
  std::uint32_t issued_ = 0;  // chunks before it are given out
  std::uint32_t done_ = 0;    // so many are in place
  std::uint32_t slots_a_buffer_ = 1;
  std::size_t link_count_ = 0;
  std::size_t buffer_count_ = 0;
  cuda::Result failure_ = cuda::success;
  std::uint64_t lent_bytes_ = 0;
  OwnLink own_;
  std::array<Link, staging::Neighbours::most> links_;
  std::array<std::byte*, most_buffers> buffers_{};
  // By the chunk's place among the states: one more than the last chunk that has left.
  alignas(base::line_bytes) std::array<std::atomic<std::uint32_t>, Chunks::depth> left_{};
  alignas(base::line_bytes) std::atomic<bool> lost_{false};
};

}  // namespace sluice::transfer
