// SPDX-License-Identifier: Apache-2.0
// The kernel of one device at a read that several devices carry. Each kernel is told of every chunk in turn: it is to
// have it, or to do without (a ticket of length 0), so that the gather kernel does as it is. Kernels take chunks from
// places that all of them see, and write them to the target, the target's own device or by NVLink another one.
//
//   launched --> begins --> gets chunks --> is told of the last one --> done
//       |                        |
//       |                        +-- closed: does without all that are left
//       +-- does not begin: revoked
//
// A neighbour's is told of nothing before it has begun, so revoking it takes nothing back. The target's own has its
// first chunks before that, as a launch takes as long as reading them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/kernel_protocol.h"
#include "gpu/peer_memory.h"
#include "staging/neighbour.h"
#include "staging/staging_buffer.h"
#include "transfer/layout.h"
#include "transfer/piece_line.h"
#include "transfer/plan.h"
#include "transfer/sink/kernels.h"
#include "transfer/sink/launch.h"

namespace sluice::transfer {

enum class ChunksBefore : std::uint8_t { it_begins, none };

// Its words are those of the lease. Calls by one thread at a time, but for is_through().
class LinkKernel {
 public:
  void prepare(staging::StagingLease& lease, std::uint32_t chunks, ChunksBefore before) noexcept {
    lease_ = &lease;
    chunks_ = chunks;
    first_number_ = lease.numbers(chunks);
    may_be_told_ = before == ChunksBefore::it_begins;
    launch_.prepare(lease.words(), first_number_, chunks);
  }
  // With the lease's context current; `places` as seen from there. False: there is no such kernel.
  bool launch(const OneRange& range, const ReadPlan& plan, cuda::DevicePtr places) noexcept {
    launch_.begin(lease_->next_launch_id());
    const LaunchArguments arguments{
        .lease = *lease_, .slots = places, .silent_up_to = 0, .first_number = first_number_, .launch_id = launch_.id()};
    is_there_ = is_open_ = GatherKernel::launch(range, plan, arguments) == cuda::success;
    launch_.is_launched();
    return is_there_;
  }

  // It may still look at its words.
  bool is_there() const noexcept { return is_there_; }
  bool is_open() const noexcept { return is_open_; }
  bool has_begun() const noexcept { return launch_.has_begun(); }
  std::chrono::nanoseconds age() const noexcept { return launch_.age(); }
  // Any thread, of a chunk that it was given.
  bool is_through(std::uint32_t chunk) const noexcept { return launch_.is_through(chunk); }

  // Can it be given this chunk, and do without those in between?
  bool takes(std::uint32_t chunk) noexcept {
    if (!is_open_) return false;
    skip_to(chunk);
    return may_be_told_ && next_ == chunk &&
           (chunk < gpu::ticket_slots || launch_.is_through(chunk - gpu::ticket_slots));
  }
  void give(std::uint32_t chunk, std::uint32_t length, std::uint32_t slot) noexcept {
    launch_.give(chunk, length, slot);
    next_ = chunk + 1;
    given_.at(given_.end++) = chunk;
  }
  // Chunks that it was given and, as far as their order tells, is not through with.
  std::uint32_t waiting() noexcept {
    while (given_.count() > 0 && launch_.is_through(given_.at(given_.begin))) ++given_.begin;
    return given_.count();
  }

  // It gets nothing more.
  void close() noexcept { is_open_ = false; }
  // It is to do without all chunks before `end` that it has not been told of, as far as it has room for that now.
  void skip_to(std::uint32_t end) noexcept {
    may_be_told_ = may_be_told_ || launch_.has_begun();
    if (may_be_told_) next_ = launch_.give_nothing(next_, end);
  }
  // Has it ended? Then its chunks are in place.
  bool has_ended() noexcept {
    if (is_there_ && launch_.is_done()) {
      is_there_ = is_open_ = false;
      lease_->kernel_did_well();
    }
    return !is_there_;
  }

  // Takes a launch back that has not begun, or is told so in time; then take_back() tells what it had been given.
  // False: it carries, or it has begun and has not told for as long as `waits()` says so; then this is to be asked
  // again.
  template <typename Waits>
  bool revoke(const Waits& waits) noexcept {
    is_marked_ = is_marked_ || launch_.mark_revoked();
    if (!is_marked_) return false;
    // What has been told of nothing finds nothing but the mark.
    if (next_ > 0 && launch_.has_begun()) {
      base::SpinBackoff backoff;
      while (!launch_.has_committed() && (!backoff.long_since() || waits())) backoff.wait();
      if (!launch_.is_revoked()) return false;
    }
    lease_->revoked(launch_.id());
    is_there_ = is_open_ = false;
    return true;
  }
  bool is_marked() const noexcept { return is_marked_; }
  // Its device is lost.
  void is_lost() noexcept { is_there_ = is_open_ = false; }
  // What it has not carried, and never will.
  template <typename Take>
  void take_back(const Take& take) noexcept {
    for (; given_.count() > 0; ++given_.begin) {
      const std::uint32_t chunk = given_.at(given_.begin);
      if (!launch_.is_through(chunk)) take(chunk);
    }
  }

 private:
  staging::StagingLease* lease_ = nullptr;
  Launch launch_;
  std::uint32_t chunks_ = 0;
  std::uint32_t first_number_ = 0;
  std::uint32_t next_ = 0;  // the first chunk that it has not been told of
  bool may_be_told_ = false;
  bool is_there_ = false;
  bool is_open_ = false;
  bool is_marked_ = false;  // as revoked
  PieceLine<std::uint32_t, gpu::ticket_slots> given_;
};

// The target's own part.
struct OwnLinkPart {
  staging::StagingLease& lease;
  cuda::DevicePtr places_there;  // as the target sees them
  bool by_kernel;
};

// All that one read has: the target's own first, where it has one, then neighbours'. They are launched before the first
// chunk is read.
class LinkKernels {
 public:
  static constexpr std::uint32_t most = 1 + staging::Neighbours::most;

  LinkKernels(const OneRange& range, const OwnLinkPart& own, std::span<staging::NeighbourLease> neighbours) noexcept
      : own_(own), neighbours_(neighbours) {
    if (own.by_kernel) kernels_[0].prepare(own.lease, range.chunks(), ChunksBefore::it_begins);
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      kernels_[1 + i].prepare(neighbours[i].host_side(), range.chunks(), ChunksBefore::none);
    }
  }

  // With the target's context current. Once.
  void launch(const OneRange& range, const ReadPlan& plan) noexcept {
    launched_ = true;
    if (own_.by_kernel) kernels_[0].launch(range, plan, own_.places_there + plan.shift);
    for (std::size_t i = 0; i < neighbours_.size(); ++i) {
      const gpu::ContextScope there(neighbours_[i].context());
      const bool launched = there.status() == cuda::success &&
                            kernels_[1 + i].launch(range, plan, neighbours_[i].places_there() + plan.shift);
      if (!launched) neighbours_[i].is_broken();
    }
  }
  bool are_launched() const noexcept { return launched_; }
  bool any_of_neighbours() const noexcept {
    return std::any_of(kernels_.begin() + 1, kernels_.end(),
                       [](const LinkKernel& kernel) { return kernel.is_there(); });
  }
  // What it has may be had by the next read.
  void hand_on() noexcept {
    for (staging::NeighbourLease& neighbour : neighbours_) neighbour.hand_on();
  }
  // Of a read that was not begun: no kernel has been told of anything.
  void revoke() noexcept {
    for (LinkKernel& kernel : all()) {
      if (kernel.is_there()) kernel.revoke([] { return false; });
    }
  }

  std::span<LinkKernel> all() noexcept { return std::span(kernels_).first(1 + neighbours_.size()); }
  LinkKernel& operator[](std::size_t carrier) noexcept { return kernels_[carrier]; }
  staging::NeighbourLease& neighbour_of(std::size_t carrier) noexcept { return neighbours_[carrier - 1]; }
  const staging::StagingLease& lease_of(std::size_t carrier) noexcept {
    return carrier == 0 ? own_.lease : neighbour_of(carrier).host_side();
  }

 private:
  OwnLinkPart own_;
  std::span<staging::NeighbourLease> neighbours_;
  bool launched_ = false;
  std::array<LinkKernel, most> kernels_;
};

}  // namespace sluice::transfer
