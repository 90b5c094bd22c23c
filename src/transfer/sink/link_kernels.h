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
//
// `Engine` is what stands in for kernels:
//   copy(copies, mark)   by the caller's thread, in their order; answers what the driver says
//   copied()             the mark of the last one that is in place; has_copied(mark)
//   health(), give_up()  of the target
//   count(range, any)    when the read is over: whether any copy was made
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
#include "observe/copy_counters.h"
#include "staging/neighbour.h"
#include "staging/slot_cursor.h"
#include "staging/staging_buffer.h"
#include "transfer/board.h"
#include "transfer/hand_on.h"
#include "transfer/plan.h"
#include "transfer/sink/kernels.h"
#include "transfer/sink/link_kernel.h"
#include "transfer/sink/stuck_reader.h"

namespace sluice::transfer {

// The target's copy engine, on the stream of its staging buffer.
class OwnCopyEngine {
 public:
  explicit OwnCopyEngine(staging::StagingLease& lease) noexcept : lease_(lease) {
    std::atomic_ref(lease.words().copied).store(0, std::memory_order_relaxed);
  }
  cuda::Result copy(std::span<const gpu::Copy> copies, std::uint32_t mark) noexcept {
    const cuda::Result result = lease_.device().copy_to_device(copies);
    return result == cuda::success ? lease_.device().mark(&lease_.words().copied, mark) : result;
  }
  std::uint32_t copied() const noexcept { return base::load_acquire(lease_.words().copied); }
  bool has_copied(std::uint32_t mark) const noexcept { return lease_.has_copied(mark); }
  cuda::Result health() const noexcept { return lease_.device().health(); }
  void give_up() noexcept { lease_.give_up(); }
  static void count(const OneRange& range, bool any) noexcept {
    if (any) {
      GatherKernel::count_copies(range, false);
    } else {
      GatherKernel::count(range);
    }
  }

 private:
  staging::StagingLease& lease_;
};

template <typename Engine>
class LinkKernelsSink {
  using Chunks = Board<OneRange>;

 public:
  // The places are `plan.shift` bytes off their memory.
  void begin(const Chunks& /*board*/, const ReadPlan& plan, LinkKernels& kernels, Engine& engine,
             std::byte* places) noexcept {
    plan_ = &plan;
    kernels_ = &kernels;
    engine_ = &engine;
    places_ = places + plan.shift;
  }

  // Before the first chunk is read.
  void launch(const Chunks& board) noexcept {
    const std::lock_guard lock(giving_);
    if (!kernels_->are_launched()) kernels_->launch(board.layout(), *plan_);
    kernels_wait_.store(std::ranges::any_of(kernels_->all(), &LinkKernel::is_open), std::memory_order_relaxed);
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
    if (carrier < copy_engine) return (*kernels_)[carrier].is_through(chunk);
    return engine_->has_copied(copy_of_[chunk % Chunks::depth].load(std::memory_order_relaxed));
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
    if (carrier < copy_engine) (*kernels_)[carrier].give(chunk, state.length, state.slot);
    if (carrier > 0 && carrier < copy_engine) lent_bytes_ += state.length;
    is_given(chunk, carrier);
  }

  // Takes the work away from all kernels, as far as they have not begun it.
  void revoke(Chunks& board) noexcept {
    close_all(board, [this] { return engine_->health() == cuda::success; });
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
    engine_->count(board.layout(), copies_.load(std::memory_order_relaxed) > 0);
  }
  // Its readers will soon have nothing to do.
  void hand_on() noexcept {
    kernels_->hand_on();
    HandOn::tell();
  }
  // What neighbours have carried.
  std::uint64_t lent_bytes() const noexcept { return lent_bytes_; }

 private:
  // Carriers by number: kernels, the target's own first; then the target's copy engine; and none, of an empty chunk.
  static constexpr std::uint32_t copy_engine = LinkKernels::most;
  static constexpr std::uint32_t no_carrier = copy_engine + 1;
  static constexpr std::uint32_t carriers = copy_engine + 2;

  std::span<LinkKernel> kernels() noexcept { return kernels_->all(); }

  // With the mutex.
  std::uint32_t carrier_for(std::uint32_t chunk) noexcept {
    std::uint32_t best = copy_engine;
    std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
    // Without a kernel of its own the copy engine is the own link's.
    if (!kernels()[0].is_open()) least = copies_.load(std::memory_order_relaxed) - engine_->copied();
    for (std::uint32_t i = 0; i < kernels().size(); ++i) {
      if (!kernels()[i].takes(chunk) || (i > 0 && kernels_->neighbour_of(i).is_wanted_elsewhere())) continue;
      const std::uint32_t waiting = kernels()[i].waiting();
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
    kernels()[kernel].take_back([&](std::uint32_t chunk) {
      if (kernel > 0) lent_bytes_ -= board.state(chunk).length;
      give_to_engine(chunk);
    });
  }

  template <typename Waits>
  bool revoke_one(Chunks& board, std::size_t kernel, const Waits& waits) noexcept {
    if (!kernels()[kernel].is_there() || !kernels()[kernel].revoke(waits)) return false;
    take_back(board, kernel);
    if (kernel == 0) observe::count_copy(observe::CopyCounter::kernel_revoked);
    return true;
  }
  template <typename Waits>
  void close_all(Chunks& board, const Waits& waits) noexcept {
    const std::lock_guard lock(giving_);
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      if (!kernels()[i].is_there() || revoke_one(board, i, waits)) continue;
      kernels()[i].close();
      kernels()[i].skip_to(board.chunks());
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
      if (is_late(kernels()[i])) {
        revoke_one(board, i, [this] { return engine_->health() == cuda::success; });
      }
      all_have_begun_ = all_have_begun_ && (!kernels()[i].is_there() || kernels()[i].has_begun());
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
      result = engine_->copy(std::span(copies).first(count), issued_);
    }
    if (result != cuda::success) give_up(board, result);
  }

  // All has been released, carried and copied.
  bool is_through(Chunks& board) noexcept {
    if (board.layout().released_after(0) < board.chunks()) return false;
    const std::lock_guard lock(giving_);
    bool ended = true;
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      LinkKernel& kernel = kernels()[i];
      if (!kernel.is_there()) continue;
      // A neighbour that has not begun has nothing.
      const bool may_leave = kernel.is_marked() || (i > 0 && !kernel.has_begun());
      if (may_leave && revoke_one(board, i, [] { return false; })) continue;
      kernel.skip_to(board.chunks());
      ended = kernel.has_ended() && ended;
    }
    return ended && copies_.load(std::memory_order_relaxed) == issued_ && engine_->has_copied(issued_);
  }

  void check_health(Chunks& board) noexcept {
    if (const cuda::Result result = engine_->health(); result != cuda::success) return give_up(board, result);
    const std::lock_guard lock(giving_);
    leave_the_lost(board);
  }
  void leave_the_lost(Chunks& board) noexcept {
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      if (!kernels()[i].is_there() || kernels_->lease_of(i).device().health() == cuda::success) continue;
      if (i > 0) kernels_->neighbour_of(i).is_broken();
      kernels()[i].is_lost();
      take_back(board, i);
    }
  }

  // The target refuses, or is lost.
  void give_up(Chunks& board, cuda::Result result) noexcept {
    failure_ = result;
    engine_->give_up();
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
  LinkKernels* kernels_ = nullptr;
  Engine* engine_ = nullptr;
  std::byte* places_ = nullptr;
  // The caller's.
  cuda::Result failure_ = cuda::success;
  bool all_have_begun_ = false;
  std::uint32_t issued_ = 0;  // of the copies
  // The sentinel's.
  StuckReader stuck_reader_;
  bool sentinel_closes_ = false;

  base::AdaptiveMutex giving_;                          // of the kernels, and of all that follows, up to the atomics
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
