// SPDX-License-Identifier: Apache-2.0
// Out of a staging buffer into device memory: by a kernel that is launched before its chunks are there, else by the
// copy engine, which also takes what a kernel was relieved of.
//
//   kernels_   chunks before it are the kernel's, all others the copy engine's
//   copied_    of these, chunks before it have left the staging buffer (the kernel tells by StagingWords::completed)
//   issued_    of these, chunks before it have been given to the copy engine
//
// The thread that runs the transfer launches, revokes, copies and waits. It may be stuck in its storage while the
// kernel waits; then the sentinel takes the rest away from the kernel, and what is read later is copied.
//
// Another sink (a stream's kernel, another GPU's staging memory) has the same functions: begin(), is_lost(),
// has_left(), publish(), look_after(), pump(), finish(), failure().
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "base/backoff.h"
#include "base/processor.h"
#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "observe/copy_counters.h"
#include "staging/slot_cursor.h"
#include "staging/staging_buffer.h"
#include "transfer/board.h"
#include "transfer/plan.h"
#include "transfer/sink/launch.h"
#include "transfer/sink/stuck_reader.h"
#include "workers/slow_disk_gauge.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

template <typename Layout, typename Kernel>
class StagedSink {
 public:
  // A run. Chunk n of the board is read into the place that the plan's slots give it.
  void begin(const Board<Layout>& board, const ReadPlan& plan, staging::StagingLease& lease, bool by_kernel,
             const workers::SlowDiskGauge::Scope* past_cache = nullptr) noexcept {
    lease_ = &lease;
    past_cache_ = past_cache;
    words_ = &lease.words();
    launch_.prepare(*words_, board.first_number(), board.chunks());
    plan_ = &plan;
    slots_ = lease.bytes().data() + plan.shift;
    issued_ = 0;
    failure_ = cuda::success;
    begins_ = Begin::of_no_interest;
    ending_ = Ending::of_its_own;
    next_nothing_ = 0;
    stuck_reader_ = {};
    copied_.store(0, std::memory_order_relaxed);
    kernels_.store(by_kernel ? all_of_them : 0, std::memory_order_relaxed);
    std::atomic_ref(words_->copied).store(0, std::memory_order_relaxed);
  }

  bool by_kernel() const noexcept { return kernels_.load(std::memory_order_acquire) == all_of_them; }
  cuda::Result failure() const noexcept { return failure_; }
  std::byte* place(std::uint32_t slot) const noexcept { return slots_ + std::size_t{slot} * plan_->stride; }

  // The device is lost: no reader waits for room any more.
  bool is_lost() const noexcept { return copied_.load(std::memory_order_acquire) == lost; }
  // Has the chunk left its place?
  bool has_left(const Board<Layout>& /*board*/, std::uint32_t chunk) const noexcept {
    const std::uint32_t copied = copied_.load(std::memory_order_acquire);
    if (copied == lost) return true;
    if (chunk >= kernels_.load(std::memory_order_acquire)) return copied > chunk;
    return launch_.is_through(chunk);
  }

  bool has_room(const Board<Layout>& board, const staging::SlotCursor& cursor, std::uint32_t chunk) const noexcept {
    if (chunk >= board.depth && !has_left(board, chunk - board.depth)) return false;
    const std::optional<std::uint32_t> before = cursor.in_the_way_of(chunk);
    return !before || has_left(board, *before);
  }
  void update_room(const Board<Layout>& /*board*/) noexcept {
    if (failure_ == cuda::success) copied_.store(base::load_acquire(words_->copied), std::memory_order_release);
  }
  static std::uint32_t slot_for(const staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    return cursor.slot_for(chunk);
  }

  // Of a chunk that is being released; any thread.
  void publish(const Board<Layout>& /*board*/, std::uint32_t chunk, const ChunkState& state) const noexcept {
    if (by_kernel()) launch_.give(chunk, state.length, state.slot);
  }

  void launch(const Board<Layout>& board) noexcept {
    if (!by_kernel()) return;
    launch_.begin(lease_->next_launch_id());
    const cuda::Result result = Kernel::launch(board.layout(), *plan_,
                                               {.lease = *lease_,
                                                .slots = lease_->device().seen_by_device(slots_),
                                                .silent_up_to = plan_->slots.enough_for(),
                                                .first_number = board.first_number(),
                                                .launch_id = launch_.id()});
    launch_.is_launched();
    if (result != cuda::success) kernels_.store(0, std::memory_order_release);
    begins_ = plan_->in_crowd ? Begin::awaited : Begin::of_no_interest;
  }

  // Takes the work back from a kernel that has not begun. False: it has.
  bool revoke(Board<Layout>& board) noexcept {
    if (turning_.exchange(true, std::memory_order_acquire)) return false;  // the sentinel is at it
    bool off = by_kernel() && launch_.mark_revoked();
    if (off && launch_.has_begun()) {
      base::SpinBackoff backoff;
      while (!launch_.has_committed() && (!backoff.long_since() || is_healthy(board))) backoff.wait();
      off = launch_.is_revoked();
    }
    if (off) {
      kernels_.store(0, std::memory_order_release);
      count_revoked();
    }
    turning_.store(false, std::memory_order_release);
    return off;
  }

  // After each chunk that the caller has read.
  void has_read_one(Board<Layout>& board) noexcept {
    if (by_kernel()) {
      watch_for_begin();
    } else {
      pump(board);
    }
  }

  // After each wait for a source.
  static constexpr bool gathers() noexcept { return false; }
  static constexpr bool is_idle() noexcept { return true; }  // the caller may as well read
  void has_waited(Board<Layout>& board, int /*count*/) noexcept { pump(board); }

  // Of the helpers of a long request: what it took with so many.
  void learn(std::chrono::nanoseconds took) noexcept {
    lease_->tuner_for(plan_->bytes).learn(took, plan_->bytes, plan_->helpers < workers::worker_count());
  }

  // One wait for room, or for the end.
  void look_after(Board<Layout>& board, base::SpinBackoff& backoff) noexcept {
    backoff.wait(wait_mode());
    if (failure_ != cuda::success) return;
    if (!by_kernel()) {
      pump(board);
    } else if (!launch_.has_begun()) {
      watch_for_begin();
      if (launch_.age() > Kernel::start_timeout(plan_->bytes)) revoke(board);
    } else if (launch_.is_revoked()) {
      revoke(board);  // the sentinel has, and did not wait until the kernel said so
    } else if (backoff.long_since()) {
      is_healthy(board);
    }
  }

  // In a crowd the copies of all stand in one line.
  base::SpinBackoff backoff() const noexcept {
    return plan_->in_crowd && !by_kernel() ? base::SpinBackoff(std::chrono::milliseconds(1)) : base::SpinBackoff();
  }

  // Returns when all that was released is in place, and no kernel looks at the words any more.
  void finish(Board<Layout>& board) noexcept {
    base::SpinBackoff backoff = this->backoff();
    while (failure_ == cuda::success && by_kernel() && !launch_.is_done()) look_after(board, backoff);
    if (failure_ == cuda::success && by_kernel()) {
      Kernel::count(board.layout());
      lease_->kernel_did_well();
      if (begins_ == Begin::in_time || begins_ == Begin::late) lease_->kernel_began(begins_ == Begin::late);
      return;
    }
    while (failure_ == cuda::success) {
      pump(board);
      if (copied_.load(std::memory_order_relaxed) >= board.chunks()) break;  // at once: a wait may be a sleep
      const bool waits_for_storage = !plan_->cached && board.layout().released_after(issued_) < board.chunks();
      backoff.wait(waits_for_storage ? base::WaitMode::sleep : wait_mode());
      if (backoff.long_since()) is_healthy(board);
    }
    await_kernel(board);
    if (failure_ == cuda::success) Kernel::count_copies(board.layout(), lease_->device().can_copy_many());
  }

  // By the sentinel. The reader of the chunk that the kernel waits for has been at it for a while, in a storage.
  template <typename Release>
  void look_in(Board<Layout>& board, const Release& release) noexcept {
    const bool is_stuck = stuck_reader_.is_there(board, by_kernel());
    if (!(is_stuck || ending_ == Ending::cut) || turning_.exchange(true, std::memory_order_acquire)) return;
    if (is_stuck) turn_over(board, release);
    if (ending_ == Ending::cut) publish_nothing(board);
    turning_.store(false, std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t all_of_them = ~std::uint32_t{0};  // as a value of kernels_
  static constexpr std::uint32_t lost = ~std::uint32_t{0};         // as a value of copied_
  // In a crowd, a kernel that begins later than this would have left the copy engine time for some megabytes.
  static constexpr auto late_in_crowd = std::chrono::microseconds(200);

  base::WaitMode wait_mode() const noexcept {
    return past_cache_ != nullptr ? past_cache_->waits() : base::WaitMode::spin;
  }

  // In a crowd: when does the kernel begin?
  void watch_for_begin() noexcept {
    if (begins_ != Begin::awaited) return;
    if (launch_.has_begun()) {
      begins_ = Begin::in_time;
    } else if (launch_.age() > late_in_crowd) {
      begins_ = Begin::late;
    }
  }

  // The caller's.
  void count_revoked() noexcept {
    lease_->revoked(launch_.id());
    observe::count_copy(observe::CopyCounter::kernel_revoked);
  }

  // The sentinel's: takes what is not released yet away from the kernel: all of it, where it has not begun; else it
  // gets tickets for nothing, and leaves with the last one.
  template <typename Release>
  void turn_over(Board<Layout>& board, const Release& release) noexcept {
    Row& row = board.layout().row(0);
    base::Backoff backoff;
    while (row.releasing.exchange(true, std::memory_order_seq_cst)) backoff.wait();
    const std::uint32_t first = row.released.load(std::memory_order_relaxed);
    if (by_kernel() && first < board.chunks()) {
      const bool marked = launch_.mark_revoked();
      bool off = marked;
      if (marked && launch_.has_begun()) {
        launch_.await_commit();
        off = launch_.is_revoked();
      }
      if (off) {
        ending_ = Ending::revoked;
        kernels_.store(0, std::memory_order_release);
      } else if (first > 0 && (!marked || launch_.carries())) {
        ending_ = Ending::cut;
        next_nothing_ = first;
        kernels_.store(first, std::memory_order_release);
      }
    }
    row.releasing.store(false, std::memory_order_seq_cst);
    release();  // what has become ready meanwhile
  }

  void publish_nothing(const Board<Layout>& board) noexcept {
    next_nothing_ = launch_.give_nothing(next_nothing_, board.chunks());
  }

  bool is_healthy(Board<Layout>& board) noexcept {
    const cuda::Result result = lease_->device().health();
    if (result == cuda::success) return true;
    give_up(board, result);
    return false;
  }

  // The device is lost to this context. A thread that waits for a place is let go, and leaves it as it is: what lies
  // there may not have been released yet.
  void give_up(Board<Layout>& board, cuda::Result result) noexcept {
    failure_ = result;
    lease_->give_up();
    board.layout().stop();
    copied_.store(lost, std::memory_order_release);
  }

  // Gives the copy engine what has been released, in the order of the chunks, and sees how far it is.
  void pump(Board<Layout>& board) noexcept {
    if (failure_ != cuda::success) return;
    const std::uint32_t first = kernels_.load(std::memory_order_acquire);
    issued_ = std::max(issued_, first);
    const std::uint32_t copied = base::load_acquire(words_->copied);
    copied_.store(copied, std::memory_order_release);
    const std::uint32_t ready = board.layout().released_after(issued_);
    const bool idle = plan_->less_when_idle && std::max(first, copied) == issued_;
    if (issued_ >= ready || !(idle || ready - issued_ >= plan_->chunks_a_copy || ready == board.chunks())) return;
    cuda::Result result = copy_released(board, ready);
    if (result == cuda::success) result = lease_->device().mark(&words_->copied, issued_);
    if (result != cuda::success) give_up(board, result);
  }

  // Neighbours on both sides in one copy.
  cuda::Result copy_released(Board<Layout>& board, std::uint32_t end) noexcept {
    std::array<gpu::Copy, Kernel::copies_at_once> copies;
    cuda::Result result = cuda::success;
    while (issued_ < end && result == cuda::success) {
      std::size_t count = 0;
      std::uint64_t memory = 0;  // of the last copy
      for (; issued_ < end; ++issued_) {
        const ChunkState& state = board.state(issued_);
        if (state.length == 0) continue;
        const Chunk chunk = board.layout()[issued_];
        const gpu::Copy next{chunk.target, place(state.slot) + chunk.lead, state.length};
        if (count > 0 && memory == chunk.memory && copies[count - 1].to + copies[count - 1].size == next.to &&
            copies[count - 1].from + copies[count - 1].size == next.from) {
          copies[count - 1].size += next.size;
          continue;
        }
        if (count == copies.size()) break;
        copies[count++] = next;
        memory = chunk.memory;
      }
      result = lease_->device().copy_to_device(std::span(copies).first(count));
    }
    return result;
  }

  // No thread leaves while a kernel of theirs may still look at the words.
  void await_kernel(Board<Layout>& board) noexcept {
    base::Backoff lock_backoff;
    while (turning_.exchange(true, std::memory_order_acquire)) lock_backoff.wait();
    if (ending_ == Ending::revoked) count_revoked();
    base::SpinBackoff backoff;
    // Where copies have failed, too: it ends, and until then it may write what it has got.
    while (ending_ == Ending::cut && !launch_.is_done()) {
      publish_nothing(board);
      backoff.wait();
      if (!backoff.long_since()) continue;
      const cuda::Result result = lease_->device().health();
      if (result == cuda::success) continue;
      if (failure_ == cuda::success) give_up(board, result);
      break;
    }
    turning_.store(false, std::memory_order_release);
  }

  staging::StagingLease* lease_ = nullptr;
  staging::StagingWords* words_ = nullptr;
  const ReadPlan* plan_ = nullptr;
  const workers::SlowDiskGauge::Scope* past_cache_ = nullptr;
  std::byte* slots_ = nullptr;
  Launch launch_;
  enum class Begin : std::uint8_t { of_no_interest, awaited, in_time, late } begins_ = Begin::of_no_interest;
  cuda::Result failure_ = cuda::success;
  std::uint32_t issued_ = 0;

  // Of the thread that has set turning_: the caller, or the sentinel.
  enum class Ending : std::uint8_t { of_its_own, revoked, cut };
  std::atomic<bool> turning_{false};
  Ending ending_ = Ending::of_its_own;  // what the sentinel has made of the launch
  std::uint32_t next_nothing_ = 0;      // the first chunk that the kernel has not been told to do without
  StuckReader stuck_reader_;            // the sentinel's

  alignas(base::line_bytes) std::atomic<std::uint32_t> copied_{0};
  std::atomic<std::uint32_t> kernels_{0};
};

}  // namespace sluice::transfer
