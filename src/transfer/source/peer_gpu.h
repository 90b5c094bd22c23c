// SPDX-License-Identifier: Apache-2.0
// Device memory that is brought into staging buffers by several links at once, for a write of one range: the device's
// own link, and those of neighbours, whose memory the bytes pass (staging/neighbour.h).
//
//                 own link
//   device  ---------------------------------------------> places of the own staging buffer
//      |   target side                    host side
//      +---------------> neighbour's memory -------------> places of the neighbour's staging buffer
//
// A chunk goes by the link that has least to do. The calling thread hands on what has come to a neighbour, and says in
// the order of the chunks what is ready. A neighbour can be relieved of a chunk at any time: its bytes are still in the
// device's memory, and the own link brings them to a place of its own; what the neighbour brings yet lands in the
// neighbour's buffer, which no thread has before that (NeighbourLease::leaves_late).
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
#include "staging/neighbour.h"
#include "staging/staging_buffer.h"
#include "transfer/piece_line.h"
#include "transfer/write_layout.h"

namespace sluice::transfer {

class PeerGpuSource {
  using Clock = std::chrono::steady_clock;

 public:
  // Before begin().
  void lend(std::span<staging::NeighbourLease> neighbours) noexcept {
    for (staging::NeighbourLease& neighbour : neighbours) links_[link_count_++].lease = &neighbour;
  }
  void begin(staging::StagingLease& own) noexcept {
    own_.lease = &own;
    std::atomic_ref(own.words().copied).store(0, std::memory_order_relaxed);
  }

  std::uint32_t ready() const noexcept { return ready_.load(std::memory_order_acquire); }
  std::span<std::byte> bytes(const OneWrite& layout, std::uint32_t chunk) const noexcept {
    return {places_[chunk % window], layout[chunk].length};
  }

  cuda::Result copy_up_to(std::uint32_t end, const OneWrite& layout) noexcept {
    cuda::Result result = cuda::success;
    while (issued_ < end && result == cuda::success) {
      const WriteChunk chunk = layout[issued_];
      const Piece piece{.chunk = issued_++, .bytes = chunk.length, .from = chunk.from};
      is_there_[piece.chunk % window] = false;
      Link* const link = least_busy(piece);
      result = link == nullptr ? copy_by_own(layout, piece) : copy_to(layout, *link, piece);
    }
    return result;
  }
  cuda::Result pump(const OneWrite& layout) noexcept {
    for (; own_.begin != own_.end && own_.lease->has_copied(own_.at(own_.begin).mark); ++own_.begin) {
      is_there_[own_.at(own_.begin).chunk % window] = true;
    }
    cuda::Result result = cuda::success;
    for (Link& link : std::span(links_).first(link_count_)) {
      if (result == cuda::success) result = collect(layout, link);
    }
    std::uint32_t ready = ready_.load(std::memory_order_relaxed);
    while (ready < issued_ && is_there_[ready % window]) ++ready;
    // Release: the place of each, and what the device has written there.
    ready_.store(ready, std::memory_order_release);
    return result;
  }
  cuda::Result health() const noexcept { return own_.lease->device().health(); }
  // No thread leaves while a device may still read the target's memory, or write into the own buffer.
  void finish() noexcept {
    if (own_.begin != own_.end) own_.lease->device().finish_copies();
    for (Link& link : std::span(links_).first(link_count_)) leave(link);
  }
  void give_up() noexcept {
    own_.lease->give_up();
    for (Link& link : std::span(links_).first(link_count_)) link.lease->target_side().give_up();
  }
  // What neighbours have carried.
  std::uint64_t lent_bytes() const noexcept { return lent_bytes_; }

 private:
  // More chunks than OneWrite has on their way at a time.
  static constexpr std::uint32_t window = 16;

  struct Piece {
    std::uint32_t chunk = 0;
    std::uint32_t bytes = 0;
    std::uint32_t mark = 0;  // of the copy that it waits for
    cuda::DevicePtr from = 0;
    Clock::time_point begun{};
  };
  struct OwnLink : PieceLine<Piece, window> {
    staging::StagingLease* lease = nullptr;
    std::uint32_t marks = 0;
  };
  // Pieces from `begin` on are in places of its buffer, those from `arrived` on are on their way there, those from
  // `passed` on to the neighbour.
  struct Link : PieceLine<Piece, staging::NeighbourLease::most_pieces> {
    staging::NeighbourLease* lease = nullptr;
    std::uint32_t arrived = 0;
    std::uint32_t passed = 0;
    std::uint32_t host_marks = 0;
    std::uint32_t target_marks = 0;
    bool is_out = false;  // it gets nothing more

    std::uint32_t waiting() const noexcept { return end - arrived; }
    // Of the neighbour's staging buffer, an equal part for each piece.
    static constexpr std::uint64_t place_bytes = staging::staging_bytes / room;
    std::byte* place(std::uint32_t number) noexcept {
      return lease->host_side().bytes().data() + (number % room) * place_bytes;
    }
  };

  // Null: the own link.
  Link* least_busy(const Piece& piece) noexcept {
    Link* best = nullptr;
    std::uint32_t least = own_.end - own_.begin;
    for (Link& link : std::span(links_).first(link_count_)) {
      if (link.is_out || link.end - link.begin == Link::room || link.waiting() >= least) continue;
      if (piece.bytes > std::min(Link::place_bytes, link.lease->piece_bytes())) continue;
      if (link.lease->is_wanted_elsewhere()) continue;
      best = &link;
      least = link.waiting();
    }
    return best;
  }

  cuda::Result copy_by_own(const OneWrite& layout, Piece piece) noexcept {
    gpu::Staging& device = own_.lease->device();
    const std::span<std::byte> to = own_.lease->bytes().subspan(layout.place(piece.chunk), piece.bytes);
    places_[piece.chunk % window] = to.data();
    piece.mark = ++own_.marks;
    cuda::Result result = device.copy_from_device(to, piece.from);
    if (result == cuda::success) result = device.mark(&own_.lease->words().copied, piece.mark);
    own_.at(own_.end++) = piece;
    return result;
  }

  cuda::Result copy_to(const OneWrite& layout, Link& link, Piece piece) noexcept {
    staging::StagingLease& lease = link.lease->target_side();
    piece.begun = Clock::now();
    piece.mark = ++link.target_marks;
    cuda::Result result = lease.device().copy_on_device(link.lease->place(link.end), piece.from, piece.bytes);
    if (result == cuda::success) result = lease.device().mark(&lease.words().copied, piece.mark);
    if (result != cuda::success) lease.give_up();  // a copy that has no mark may be on its way
    link.at(link.end++) = piece;
    return result == cuda::success ? result : take_back(layout, link);
  }

  // From the neighbour to the host.
  bool hand_on(Link& link, std::uint32_t number) noexcept {
    staging::StagingLease& lease = link.lease->host_side();
    Piece& piece = link.at(number);
    const gpu::ContextScope there(link.lease->context());
    cuda::Result result = there.status();
    if (result == cuda::success) {
      result = lease.device().copy_from_device({link.place(number), piece.bytes}, link.lease->place(number));
    }
    piece.mark = link.host_marks + 1;
    if (result == cuda::success) result = lease.device().mark(&lease.words().copied, piece.mark);
    if (result != cuda::success) return false;
    link.host_marks = piece.mark;
    piece.begun = Clock::now();
    return true;
  }

  cuda::Result collect(const OneWrite& layout, Link& link) noexcept {
    for (; link.passed != link.end && link.lease->target_side().has_copied(link.at(link.passed).mark); ++link.passed) {
      if (hand_on(link, link.passed)) continue;
      link.lease->is_broken();
      return take_back(layout, link);
    }
    for (; link.arrived != link.passed && link.lease->host_side().has_copied(link.at(link.arrived).mark);
         ++link.arrived) {
      const Piece& piece = link.at(link.arrived);
      places_[piece.chunk % window] = link.place(link.arrived);
      is_there_[piece.chunk % window] = true;
      lent_bytes_ += piece.bytes;
    }
    while (link.begin != link.arrived && layout.has_left(link.at(link.begin).chunk)) ++link.begin;
    return is_slow(link) ? take_back(layout, link) : cuda::success;
  }

  // The own link has nothing to do, and the neighbour has kept a piece for long that others may wait for.
  bool is_slow(Link& link) noexcept {
    constexpr auto long_time = std::chrono::microseconds(500);
    return link.waiting() > 0 && own_.begin == own_.end && Clock::now() - link.at(link.arrived).begun > long_time;
  }

  // What has not come goes by the own link, and so does all that follows.
  cuda::Result take_back(const OneWrite& layout, Link& link) noexcept {
    const std::uint32_t end = link.end;
    leave(link);
    cuda::Result result = cuda::success;
    for (std::uint32_t number = link.arrived; number != end && result == cuda::success; ++number) {
      result = copy_by_own(layout, link.at(number));
    }
    return result;
  }

  // It gets nothing more. What the target copies into its memory comes to its end; what it copies itself may be late.
  static void leave(Link& link) noexcept {
    link.is_out = true;
    if (link.passed != link.end) link.lease->target_side().device().finish_copies();
    if (link.arrived != link.passed) link.lease->leaves_late(link.host_marks);
    link.end = link.passed = link.arrived;
  }

  std::uint32_t issued_ = 0;  // chunks before it are on their way, or there
  std::size_t link_count_ = 0;
  std::uint64_t lent_bytes_ = 0;
  OwnLink own_;
  std::array<Link, staging::Neighbours::most> links_;
  // By the chunk's place among those on their way.
  std::array<std::byte*, window> places_{};
  std::array<bool, window> is_there_{};
  alignas(base::line_bytes) std::atomic<std::uint32_t> ready_{0};
};

}  // namespace sluice::transfer
