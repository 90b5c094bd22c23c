// SPDX-License-Identifier: Apache-2.0
// Out of places that several devices see into the memory of one of them, by a kernel on each (sink/link_kernel.h).
//
//             own link
//   places ----------------------> target's kernel -----------> target
//      |      neighbour's link                        NVLink       ^
//      +-------------------------> neighbour's kernel -------------+
//
// The thread that releases a chunk gives it to the kernel that has least to do; so a busy neighbour gets few. What no
// kernel takes goes by the target's copy engine, and so does what a kernel was relieved of. A kernel that has begun
// carries what it has: no thread leaves before it has ended, or its device is lost.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <span>

#include "base/adaptive_mutex.h"
#include "base/processor.h"
#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "gpu/peer_memory.h"
#include "observe/copy_counters.h"
#include "staging/neighbour.h"
#include "staging/slot_cursor.h"
#include "staging/staging_buffer.h"
#include "transfer/board.h"
#include "transfer/plan.h"
#include "transfer/sink/kernels.h"
#include "transfer/sink/link_kernel.h"
#include "transfer/sink/stuck_reader.h"

namespace sluice::transfer {

// The target's own part.
struct OwnLinkPart {
  staging::StagingLease& lease;
  std::byte* places;
  cuda::DevicePtr places_there;  // as the target sees them
  bool by_kernel;                // else by the copy engine alone
};

class LinkKernelsSink {
  using Chunks = Board<OneRange>;

 public:
  void begin(const Chunks& board, const ReadPlan& plan, const OwnLinkPart& own,
             std::span<staging::NeighbourLease> neighbours) noexcept {
    plan_ = &plan;
    own_ = &own.lease;
    places_ = own.places + plan.shift;
    neighbours_ = neighbours;
    places_there_[0] = own.places_there;
    own_by_kernel_ = own.by_kernel;
    if (own.by_kernel) kernels_[0].prepare(own.lease, board.chunks(), ChunksBefore::it_begins);
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      places_there_[1 + i] = neighbours[i].places_there();
      kernels_[1 + i].prepare(neighbours[i].host_side(), board.chunks(), ChunksBefore::none);
    }
    std::atomic_ref(own.lease.words().copied).store(0, std::memory_order_relaxed);
  }

  // Before the first chunk is read.
  void launch(const Chunks& board) noexcept {
    const std::lock_guard lock(giving_);
    const auto launch_on = [&](std::size_t i) {
      return kernels_[i].launch(board.layout(), *plan_, places_there_[i] + plan_->shift);
    };
    if (own_by_kernel_) launch_on(0);
    for (std::size_t i = 0; i < neighbours_.size(); ++i) {
      const gpu::ContextScope there(neighbours_[i].context());
      if (there.status() != cuda::success || !launch_on(1 + i)) neighbours_[i].is_broken();
    }
    const bool any = std::ranges::any_of(kernels(), &LinkKernel::is_open);
    kernels_wait_.store(any, std::memory_order_relaxed);
  }

  // Kernels wait for chunks.
  bool by_kernel() const noexcept { return kernels_wait_.load(std::memory_order_relaxed); }
  cuda::Result failure() const noexcept { return failure_; }
  std::byte* place(std::uint32_t slot) const noexcept { return places_ + std::size_t{slot} * plan_->stride; }
  static std::uint32_t slot_for(const staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    return cursor.slot_for(chunk);
  }
  bool is_lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  // Has the chunk left its place?
  bool has_left(const Chunks& /*board*/, std::uint32_t chunk) const noexcept {
    if (is_lost()) return true;
    const std::uint32_t given = given_[chunk % Chunks::depth].load(std::memory_order_acquire);
    if (given / carriers != chunk + 1) return given / carriers > chunk + 1;
    const std::uint32_t carrier = given % carriers;
    if (carrier == no_carrier) return true;
    if (carrier < copy_engine) return kernels_[carrier].is_through(chunk);
    return own_->has_copied(copy_of_[chunk % Chunks::depth].load(std::memory_order_relaxed));
  }
  bool has_room(const Chunks& board, const staging::SlotCursor& cursor, std::uint32_t chunk) const noexcept {
    if (chunk >= Chunks::depth && !has_left(board, chunk - Chunks::depth)) return false;
    const std::optional<std::uint32_t> before = cursor.in_the_way_of(chunk);
    return !before || has_left(board, *before);
  }

  // Of a chunk that is being released.
  void publish(const Chunks& /*board*/, std::uint32_t chunk, const ChunkState& state) noexcept {
    const std::lock_guard lock(giving_);
    const std::uint32_t carrier = state.length == 0 ? no_carrier : carrier_for(chunk);
    if (carrier == copy_engine) return give_to_engine(chunk);
    if (carrier < copy_engine) kernels_[carrier].give(chunk, state.length, state.slot);
    if (carrier > 0 && carrier < copy_engine) lent_bytes_ += state.length;
    is_given(chunk, carrier);
  }

  // Takes the work away from all kernels, as far as they have not begun it.
  void revoke(Chunks& board) noexcept {
    close_all(board, [this] { return own_->device().health() == cuda::success; });
  }
  // By the sentinel.
  template <typename Release>
  void look_in(Chunks& board, const Release& /*release*/) noexcept {
    if (!stuck_reader_.is_there(board, by_kernel()) && !sentinel_closes_) return;
    sentinel_closes_ = true;
    close_all(board, [] { return false; });
  }

  static constexpr bool gathers() noexcept { return false; }
  static constexpr bool is_idle() noexcept {
    return true;
  }  // kernels need no looking after: the caller may as well read
  static base::SpinBackoff backoff() noexcept { return {}; }
  static void learn(std::chrono::nanoseconds /*took*/) noexcept {}

  void has_read_one(Chunks& board) noexcept {
    pump(board);
    revoke_the_late(board);
  }
  void look_after(Chunks& board, base::SpinBackoff& backoff) noexcept {
    backoff.wait();
    if (is_lost()) return;
    pump(board);
    revoke_the_late(board);
    if (backoff.long_since()) check_health(board);
  }
  // Returns when all that was released is in place, and no kernel looks at its words any more.
  void finish(Chunks& board) noexcept {
    base::SpinBackoff backoff;
    while (!is_lost() && !is_through(board)) look_after(board, backoff);
    if (is_lost()) return end_kernels(board);
    if (copies_.load(std::memory_order_relaxed) == 0) {
      GatherKernel::count(board.layout());
    } else {
      GatherKernel::count_copies(board.layout(), false);
    }
  }
  // What neighbours have carried.
  std::uint64_t lent_bytes() const noexcept { return lent_bytes_; }

 private:
  // Carriers by number: kernels, the target's own first; then the target's copy engine; and none, of an empty chunk.
  static constexpr std::uint32_t most_kernels = 1 + staging::Neighbours::most;
  static constexpr std::uint32_t copy_engine = most_kernels;
  static constexpr std::uint32_t no_carrier = most_kernels + 1;
  static constexpr std::uint32_t carriers = most_kernels + 2;

  std::span<LinkKernel> kernels() noexcept { return std::span(kernels_).first(1 + neighbours_.size()); }

  // With the mutex.
  std::uint32_t carrier_for(std::uint32_t chunk) noexcept {
    std::uint32_t best = copy_engine;
    std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
    // Without a kernel of its own the copy engine is the own link's.
    if (!kernels_[0].is_open()) {
      least = copies_.load(std::memory_order_relaxed) - base::load_acquire(own_->words().copied);
    }
    for (std::uint32_t i = 0; i < kernels().size(); ++i) {
      if (!kernels_[i].takes(chunk) || (i > 0 && neighbours_[i - 1].is_wanted_elsewhere())) continue;
      const std::uint32_t waiting = kernels_[i].waiting();
      if (waiting >= least) continue;
      best = i;
      least = waiting;
    }
    return best;
  }
  // Release: what has_left() goes by then.
  void is_given(std::uint32_t chunk, std::uint32_t carrier) noexcept {
    given_[chunk % Chunks::depth].store((chunk + 1) * carriers + carrier, std::memory_order_release);
  }
  void give_to_engine(std::uint32_t chunk) noexcept {
    const std::uint32_t copies = copies_.load(std::memory_order_relaxed);
    to_copy_[copies % Chunks::depth] = chunk;
    copy_of_[chunk % Chunks::depth].store(copies + 1, std::memory_order_relaxed);
    copies_.store(copies + 1, std::memory_order_release);
    is_given(chunk, copy_engine);
  }
  void take_back(Chunks& board, std::size_t kernel) noexcept {
    kernels_[kernel].take_back([&](std::uint32_t chunk) {
      if (kernel > 0) lent_bytes_ -= board.state(chunk).length;
      give_to_engine(chunk);
    });
  }

  template <typename Waits>
  bool revoke_one(Chunks& board, std::size_t kernel, const Waits& waits) noexcept {
    if (!kernels_[kernel].is_there() || !kernels_[kernel].revoke(waits)) return false;
    take_back(board, kernel);
    if (kernel == 0) observe::count_copy(observe::CopyCounter::kernel_revoked);
    return true;
  }
  template <typename Waits>
  void close_all(Chunks& board, const Waits& waits) noexcept {
    const std::lock_guard lock(giving_);
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      if (!kernels_[i].is_there() || revoke_one(board, i, waits)) continue;
      kernels_[i].close();
      kernels_[i].skip_to(board.chunks());
    }
    kernels_wait_.store(false, std::memory_order_relaxed);
  }

  // A device that does not get to its kernel has other work.
  void revoke_the_late(Chunks& board) noexcept {
    const auto is_late = [this](const LinkKernel& kernel) {
      return kernel.is_open() && !kernel.has_begun() && kernel.age() > GatherKernel::start_timeout(plan_->bytes);
    };
    if (all_have_begun_) return;
    const std::lock_guard lock(giving_);
    all_have_begun_ = true;
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      if (is_late(kernels_[i])) {
        revoke_one(board, i, [this] { return own_->device().health() == cuda::success; });
      }
      all_have_begun_ = all_have_begun_ && (!kernels_[i].is_there() || kernels_[i].has_begun());
    }
  }

  // What the copy engine has been given, in that order.
  void pump(Chunks& board) noexcept {
    constexpr std::size_t most_at_once = 16;
    if (is_lost()) return;
    const std::uint32_t end = copies_.load(std::memory_order_acquire);
    cuda::Result result = cuda::success;
    while (issued_ != end && result == cuda::success) {
      std::array<gpu::Copy, most_at_once> copies;
      std::size_t count = 0;
      for (; issued_ != end && count < copies.size(); ++issued_) {
        const std::uint32_t number = to_copy_[issued_ % Chunks::depth];
        const ChunkState& state = board.state(number);
        const Chunk chunk = board.layout()[number];
        copies[count++] = {chunk.target, place(state.slot) + chunk.lead, state.length};
      }
      result = own_->device().copy_to_device(std::span(copies).first(count));
      if (result == cuda::success) result = own_->device().mark(&own_->words().copied, issued_);
    }
    if (result != cuda::success) give_up(board, result);
  }

  // All has been released, carried and copied.
  bool is_through(Chunks& board) noexcept {
    if (board.layout().released_after(0) < board.chunks()) return false;
    const std::lock_guard lock(giving_);
    bool ended = true;
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      LinkKernel& kernel = kernels_[i];
      if (!kernel.is_there()) continue;
      // A neighbour that has not begun has nothing.
      const bool may_leave = kernel.is_marked() || (i > 0 && !kernel.has_begun());
      if (may_leave && revoke_one(board, i, [] { return false; })) continue;
      kernel.skip_to(board.chunks());
      ended = kernel.has_ended() && ended;
    }
    return ended && copies_.load(std::memory_order_relaxed) == issued_ && own_->has_copied(issued_);
  }

  void check_health(Chunks& board) noexcept {
    if (const cuda::Result result = own_->device().health(); result != cuda::success) return give_up(board, result);
    const std::lock_guard lock(giving_);
    leave_the_lost(board);
  }
  void leave_the_lost(Chunks& board) noexcept {
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      const staging::StagingLease& lease = i == 0 ? *own_ : neighbours_[i - 1].host_side();
      if (!kernels_[i].is_there() || lease.device().health() == cuda::success) continue;
      if (i > 0) neighbours_[i - 1].is_broken();
      kernels_[i].is_lost();
      take_back(board, i);
    }
  }

  // The target refuses, or is lost.
  void give_up(Chunks& board, cuda::Result result) noexcept {
    failure_ = result;
    own_->give_up();
    board.layout().stop();
    lost_.store(true, std::memory_order_release);
  }
  // No thread leaves while a kernel may still write there.
  void end_kernels(Chunks& board) noexcept {
    base::SpinBackoff backoff;
    for (bool ended = false; !ended; backoff.wait()) {
      close_all(board, [] { return false; });
      const std::lock_guard lock(giving_);
      ended = true;
      for (LinkKernel& kernel : kernels()) ended = kernel.has_ended() && ended;
      if (!ended && backoff.long_since()) leave_the_lost(board);
    }
  }

  const ReadPlan* plan_ = nullptr;
  staging::StagingLease* own_ = nullptr;
  std::byte* places_ = nullptr;
  std::span<staging::NeighbourLease> neighbours_;
  std::array<cuda::DevicePtr, most_kernels> places_there_{};
  bool own_by_kernel_ = false;
  // The caller's.
  cuda::Result failure_ = cuda::success;
  bool all_have_begun_ = false;
  std::uint32_t issued_ = 0;  // of the copies
  // The sentinel's.
  StuckReader stuck_reader_;
  bool sentinel_closes_ = false;

  base::AdaptiveMutex giving_;  // of all that follows, up to the atomics
  std::array<LinkKernel, most_kernels> kernels_;
  std::array<std::uint32_t, Chunks::depth> to_copy_{};  // chunks, by the number of their copy
  std::uint64_t lent_bytes_ = 0;

  std::atomic<bool> kernels_wait_{false};
  std::atomic<bool> lost_{false};
  alignas(base::line_bytes) std::atomic<std::uint32_t> copies_{0};  // given to the copy engine so far
  // By the chunk's place among the states: the chunk, plus one, and its carrier; and the copy that takes it, plus one.
  alignas(base::line_bytes) std::array<std::atomic<std::uint32_t>, Chunks::depth> given_{};
  std::array<std::atomic<std::uint32_t>, Chunks::depth> copy_of_{};
};

}  // namespace sluice::transfer
