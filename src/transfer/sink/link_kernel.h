// SPDX-License-Identifier: Apache-2.0
// The kernel of one device at a read that several devices carry. Each kernel is told of every chunk in turn: it is to
// have it, or to do without (a ticket of length 0), so that the gather kernel does as it is. Kernels take chunks from
// places that all of them see, and write them to the target, the target's own device or by NVLink another one. One that
// does not reach the target writes into relay memory beside itself, out of which one more of the target's fetches.
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
#include <mutex>
#include <optional>
#include <span>
#include <utility>

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
  // The call of the driver's: with the lease's context current; `places` as seen from there. It may wait for all that
  // the device does, and that for chunks: meanwhile others go on, to whom this kernel is not there until is_launched().
  void begin_launch() noexcept {
    launch_.begin(lease_->next_launch_id());
    is_launching_ = true;
  }
  bool launch(const GatherWay& way, const ReadPlan& plan, cuda::DevicePtr places) noexcept {
    const LaunchArguments arguments{
        .lease = *lease_, .slots = places, .silent_up_to = 0, .first_number = first_number_, .launch_id = launch_.id()};
    return GatherKernel::launch(way, plan, arguments) == cuda::success;
  }
  void is_launched(bool is_there) noexcept {
    is_launching_ = false;
    is_there_ = is_open_ = is_there;
    launch_.is_launched();
  }
  // No thread has told it of anything, nor will. While the driver keeps its launch it finds the mark when it comes.
  void give_up() noexcept {
    if (is_there_) revoke();
    if (is_launching_) launch_.mark_revoked();
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
    if (!is_open_ || is_marked_) return false;
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
  // False: it carries, or it has begun and does not tell at once; then this is to be asked again.
  bool revoke() noexcept {
    is_marked_ = is_marked_ || launch_.mark_revoked();
    if (!is_marked_) return false;
    // What has been told of nothing finds nothing but the mark.
    if (next_ > 0 && launch_.has_begun()) {
      base::SpinBackoff backoff;
      while (!launch_.has_committed() && !backoff.long_since()) backoff.wait();
      if (launch_.carries()) is_marked_ = false;
      if (!launch_.is_revoked()) return false;
    }
    lease_->revoked(launch_.id());
    is_there_ = is_open_ = false;
    return true;
  }
  // As revoked, and has not told yet whether it is.
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
  bool is_launching_ = false;
  bool is_there_ = false;
  bool is_open_ = false;
  bool is_marked_ = false;
  PieceLine<std::uint32_t, gpu::ticket_slots> given_;
};

// What a neighbour's kernel has for relay memory, and the kernel that fetches it from there. Chunks go round in it in
// their order, and it has as many slots as there are places: a chunk keeps its place, and with it all behind it theirs,
// until it is fetched. No call of the driver's is needed in between: one may wait for these kernels.
class LinkRelay {
 public:
  void prepare(const staging::NeighbourLease::Relay& relay, std::uint32_t chunks) noexcept {
    memory_ = relay.memory;
    bytes_ = relay.bytes;
    fetcher_.prepare(*relay.target_side, chunks, ChunksBefore::none);
  }
  bool is_there() const noexcept { return memory_ != 0; }

  // As LinkKernel::launch(), of the one that fetches.
  bool launch(cuda::DevicePtr target, const ReadPlan& plan) noexcept {
    const std::uint64_t room = (bytes_ - plan.shift) / plan.chunk_bytes;
    slots_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(room, staging::most_slots));
    return slots_ >= plan.slots.count &&
           fetcher_.launch({.into = target, .stride = plan.chunk_bytes}, plan, begin(plan));
  }
  GatherWay into_relay(const ReadPlan& plan) const noexcept {
    return {.into = begin(plan), .stride = plan.stride, .relay_slots = slots_};
  }

  LinkKernel& fetcher() noexcept { return fetcher_; }
  const LinkKernel& fetcher() const noexcept { return fetcher_; }
  // Only then may the neighbour's kernel have a chunk.
  bool takes() const noexcept { return fetcher_.is_open() && fetcher_.has_begun() && line_.count() < line_.room; }
  void expects(std::uint32_t chunk) noexcept { line_.at(line_.end++) = chunk; }
  bool is_empty() const noexcept { return line_.count() == 0; }
  std::uint32_t waiting() noexcept { return line_.count() + fetcher_.waiting(); }

  // What the neighbour's kernel has put there is the fetcher's. Was there any?
  template <typename LengthOf>
  bool pass_on(const LinkKernel& neighbour, const LengthOf& length_of) noexcept {
    const std::uint32_t before = line_.begin;
    for (; line_.count() > 0; ++line_.begin) {
      const std::uint32_t chunk = line_.at(line_.begin);
      if (!neighbour.is_through(chunk) || !fetcher_.takes(chunk)) break;
      fetcher_.give(chunk, length_of(chunk), chunk % slots_);
    }
    return line_.begin != before;
  }
  // What will not come any more.
  template <typename Take>
  void take_back(const Take& take) noexcept {
    for (; line_.count() > 0; ++line_.begin) take(line_.at(line_.begin));
  }

 private:
  cuda::DevicePtr begin(const ReadPlan& plan) const noexcept { return memory_ + plan.shift; }

  cuda::DevicePtr memory_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t slots_ = 1;
  LinkKernel fetcher_;
  PieceLine<std::uint32_t, gpu::ticket_slots> line_;  // the neighbour's, and not fetched
};

// The target's own part.
struct OwnLinkPart {
  staging::StagingLease& lease;
  cuda::DevicePtr places_there;  // as the target sees them
  bool by_kernel;
};

// All that one read has: the target's own first, where it has one, then neighbours'. They are launched before the first
// chunk is read, neighbours' perhaps by another thread than the own one (launched_aside.h).
class LinkKernels {
 public:
  static constexpr std::uint32_t most = 1 + staging::Neighbours::most_by_kernels;

  LinkKernels(const OneRange& range, std::span<staging::NeighbourLease> neighbours) noexcept
      : neighbours_(neighbours), chunks_(range.chunks()) {
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      kernels_[1 + i].prepare(neighbours[i].host_side(), chunks_, ChunksBefore::none);
      const staging::NeighbourLease::Relay relay = neighbours[i].relay();
      if (relay.memory == 0) continue;
      relays_[1 + i].prepare(relay, chunks_);
      any_relays_ = true;
    }
  }
  // By the one that reads: the target's part.
  void has_own(const OwnLinkPart& own) noexcept {
    own_.emplace(own);
    if (own.by_kernel) kernels_[0].prepare(own.lease, chunks_, ChunksBefore::it_begins);
  }

  // What has not been launched yet, with the target's context current. The mutex is held for what others look at
  // meanwhile, not over calls of the driver's.
  template <typename Mutex>
  void launch(const OneRange& range, const ReadPlan& plan, Mutex& mutex) noexcept {
    enum class Came : std::uint8_t { is_there, is_refused, is_given_up };
    const auto launched = [&](LinkKernel& kernel, const auto& call) {
      {
        const std::lock_guard lock(mutex);
        if (given_up_) return Came::is_given_up;
        kernel.begin_launch();
      }
      const bool is_there = call();
      const std::lock_guard lock(mutex);
      kernel.is_launched(is_there);
      if (given_up_) kernel.give_up();
      if (!is_there) return Came::is_refused;
      return given_up_ ? Came::is_given_up : Came::is_there;
    };
    const cuda::DevicePtr target = range[0].target - plan.skip;
    const GatherWay into_target{.into = target, .stride = plan.stride};
    if (own_ && !std::exchange(own_is_launched_, true) && own_->by_kernel) {
      launched(kernels_[0], [&] { return kernels_[0].launch(into_target, plan, own_->places_there + plan.shift); });
    }
    if (std::exchange(neighbours_are_launched_, true)) return;
    for (std::size_t i = 0; i < neighbours_.size(); ++i) {
      LinkRelay& relay = relays_[1 + i];
      const auto launch_fetcher = [&] { return relay.launch(target, plan); };
      if (relay.is_there() && launched(relay.fetcher(), launch_fetcher) != Came::is_there) continue;
      const gpu::ContextScope there(neighbours_[i].context());
      const auto launch_there = [&] {
        return there.status() == cuda::success &&
               kernels_[1 + i].launch(relay.is_there() ? relay.into_relay(plan) : into_target, plan,
                                      neighbours_[i].places_there() + plan.shift);
      };
      if (launched(kernels_[1 + i], launch_there) == Came::is_refused) neighbours_[i].is_broken();
    }
  }
  // With the mutex: the read is not made this way. No kernel waits for anything from now on, though a driver may keep
  // the one that launches them.
  void give_up() noexcept {
    given_up_ = true;
    for (LinkKernel& kernel : all()) kernel.give_up();
    for (LinkRelay& relay : relays_) relay.fetcher().give_up();
  }
  bool are_launched() const noexcept { return own_is_launched_ && neighbours_are_launched_; }
  bool any_of_neighbours() const noexcept {
    return std::any_of(kernels_.begin() + 1, kernels_.end(),
                       [](const LinkKernel& kernel) { return kernel.is_there(); });
  }
  // What it has may be had by the next read.
  void hand_on() noexcept {
    for (staging::NeighbourLease& neighbour : neighbours_) neighbour.hand_on();
  }
  std::span<LinkKernel> all() noexcept { return std::span(kernels_).first(1 + neighbours_.size()); }
  LinkKernel& operator[](std::size_t carrier) noexcept { return kernels_[carrier]; }
  bool any_relays() const noexcept { return any_relays_; }
  LinkRelay& relay(std::size_t carrier) noexcept { return relays_[carrier]; }
  // Any thread, of a chunk that this one was given: has it left its place, and its place in relay memory?
  bool is_through(std::size_t carrier, std::uint32_t chunk) const noexcept {
    const LinkRelay& relay = relays_[carrier];
    return relay.is_there() ? relay.fetcher().is_through(chunk) : kernels_[carrier].is_through(chunk);
  }
  staging::NeighbourLease& neighbour_of(std::size_t carrier) noexcept { return neighbours_[carrier - 1]; }
  const staging::StagingLease& lease_of(std::size_t carrier) noexcept {
    return carrier == 0 ? own_->lease : neighbour_of(carrier).host_side();
  }

 private:
  std::optional<OwnLinkPart> own_;
  std::span<staging::NeighbourLease> neighbours_;
  std::uint32_t chunks_;
  bool own_is_launched_ = false;
  bool neighbours_are_launched_ = false;
  bool given_up_ = false;
  bool any_relays_ = false;
  std::array<LinkKernel, most> kernels_;
  std::array<LinkRelay, most> relays_;
};

}  // namespace sluice::transfer
