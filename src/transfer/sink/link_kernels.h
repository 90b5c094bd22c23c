// SPDX-License-Identifier: Apache-2.0
// Out of places that several devices see into the memory of one of them, by a kernel on each (sink/link_kernel.h).
//
//             own link
//   places ----------------------> target's kernel -----------> target
//      |      neighbour's link                        NVLink       ^
//      +-------------------------> neighbour's kernel -------------+
//                                        |                         |
//                                        +-> relay -> one more ----+   where it does not reach the target
//                                                  of the target's
//
// The thread that releases a chunk gives it to the kernel that has least to do; so a busy neighbour gets few. What no
// kernel takes goes by the target's copy engine, and so does what a kernel was relieved of. A kernel that has begun
// carries what it has: no thread leaves before it has ended, or its device is lost.
//
// `Engine` is what stands in for kernels:
//   copy(copies, mark)   by the caller's thread, in their order; answers what the driver says
//   copied()             the mark of the last one that is in place; has_copied(mark)
//   by_hand              what a chunk of its own counts for before it is copied: 1 where the caller's thread copies it
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
  // The sentinel looks in from before that on: a call of the driver's may wait for a kernel that was launched just now.
  static constexpr bool launches_several = true;
  void launch(const Chunks& board) noexcept {
    if (!kernels_->are_launched()) {
      launching_.store(true, std::memory_order_relaxed);
      const DriverCall call(driver_calls_);
      kernels_->launch(board.layout(), *plan_, giving_);
      launching_.store(false, std::memory_order_relaxed);
    }
    const std::lock_guard lock(giving_);
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
    if (carrier < copy_engine) return kernels_->is_through(carrier, chunk);
    return engine_->has_copied(copy_of_[chunk % Chunks::depth].load(std::memory_order_relaxed));
  }
  bool has_room(const Chunks& board, const staging::SlotCursor& cursor, std::uint32_t chunk) const noexcept {
    if (chunk >= Chunks::depth && !has_left(board, chunk - Chunks::depth)) return false;
    const std::optional<std::uint32_t> before = cursor.in_the_way_of(chunk);
    return !before || has_left(board, *before);
  }

  // Of a chunk that is being released.
  void publish(Chunks& board, std::uint32_t chunk, const ChunkState& state) noexcept {
    const std::lock_guard lock(giving_);
    const std::uint32_t carrier = state.length == 0 ? no_carrier : carrier_for(chunk);
    if (carrier == copy_engine) return give_to_engine(chunk);
    if (carrier < copy_engine) (*kernels_)[carrier].give(chunk, state.length, state.slot);
    if (carrier > 0 && carrier < copy_engine) lent_bytes_ += state.length;
    if (carrier < copy_engine && kernels_->relay(carrier).is_there()) kernels_->relay(carrier).expects(chunk);
    is_given(chunk, carrier);
    if (kernels_->any_relays()) pass_on(board);
  }

  // Takes the work away from all kernels, as far as they have not begun it.
  void revoke(Chunks& board) noexcept {
    all_have_begun_ = false;  // what is marked only is asked for again
    close_all(board);
  }
  // By the sentinel.
  template <typename Release>
  void look_in(Chunks& board, const Release& /*release*/) noexcept {
    // A driver that another thread has free memory may keep a call until these kernels have ended.
    const std::uint32_t calls = driver_calls_.load(std::memory_order_relaxed);
    const bool is_kept = calls % 2 == 1 && calls == calls_before_;
    calls_before_ = calls;
    const bool is_stuck = stuck_reader_.is_there(board, by_kernel()) || is_kept;
    if (is_stuck) sentinel_closes_.store(true, std::memory_order_relaxed);
    if (sentinel_closes_.load(std::memory_order_relaxed)) return close_all(board);
    // In the place of the caller, which may wait in the driver for what waits for this.
    tend(board);
  }

  static constexpr bool gathers() noexcept { return false; }
  static constexpr bool is_idle() noexcept {
    return true;
  }  // kernels need no looking after: the caller may as well read
  static base::SpinBackoff backoff() noexcept { return {}; }
  static void learn(std::chrono::nanoseconds /*took*/) noexcept {}

  void has_read_one(Chunks& board) noexcept {
    pump(board);
    if (kernels_->any_relays()) tend(board);
    revoke_the_late(board);
  }
  void look_after(Chunks& board, base::SpinBackoff& backoff) noexcept {
    backoff.wait();
    if (is_lost()) return;
    pump(board);
    if (tend(board)) backoff = {};
    revoke_the_late(board);
    let_copies_by(board);
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

  // What a kernel had yet to do when it was looked at, since when, and the last look.
  struct Standstill {
    std::uint32_t waiting = 0;
    std::chrono::steady_clock::time_point since;
    std::chrono::steady_clock::time_point looked;
  };

  class DriverCall {
   public:
    explicit DriverCall(std::atomic<std::uint32_t>& calls) noexcept : calls_(calls) {
      calls_.fetch_add(1, std::memory_order_relaxed);
    }
    ~DriverCall() { calls_.fetch_add(1, std::memory_order_relaxed); }
    DriverCall(const DriverCall&) = delete;
    DriverCall& operator=(const DriverCall&) = delete;

   private:
    std::atomic<std::uint32_t>& calls_;
  };

  std::span<LinkKernel> kernels() noexcept { return kernels_->all(); }

  // With the mutex.
  std::uint32_t carrier_for(std::uint32_t chunk) noexcept {
    std::uint32_t best = copy_engine;
    std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
    // Without a kernel of its own the copy engine is the own link's.
    if (!kernels()[0].is_open()) least = copies_.load(std::memory_order_relaxed) - engine_->copied() + Engine::by_hand;
    for (std::uint32_t i = 0; i < kernels().size(); ++i) {
      if (!kernels()[i].takes(chunk) || (i > 0 && kernels_->neighbour_of(i).is_wanted_elsewhere())) continue;
      std::uint32_t waiting = kernels()[i].waiting();
      if (LinkRelay& relay = kernels_->relay(i); relay.is_there()) {
        if (!relay.takes()) continue;
        waiting = relay.waiting();
      }
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
    const auto take = [&](std::uint32_t chunk) {
      if (kernel > 0) lent_bytes_ -= board.state(chunk).length;
      give_to_engine(chunk);
    };
    if (!kernels_->relay(kernel).is_there()) return kernels()[kernel].take_back(take);
    // What is in relay memory is not there for the one that fetches any more: its place has it yet.
    kernels()[kernel].take_back([](std::uint32_t) {});
    kernels_->relay(kernel).take_back(take);
  }

  // What lies in relay memory by now is the target's kernels'. Was there any?
  bool pass_on(Chunks& board) noexcept {
    bool any = false;
    for (std::size_t i = 1; i < kernels().size(); ++i) {
      LinkRelay& relay = kernels_->relay(i);
      any = (!relay.is_empty() &&
             relay.pass_on(kernels()[i], [&](std::uint32_t chunk) { return board.state(chunk).length; })) ||
            any;
    }
    return any;
  }
  // One that fetches, and to which nothing comes any more, ends; true where it has.
  bool has_ended_relay(const Chunks& board, std::size_t carrier) noexcept {
    LinkKernel& fetcher = kernels_->relay(carrier).fetcher();
    if (!fetcher.is_there()) return true;
    if (!kernels_->relay(carrier).is_empty() || kernels()[carrier].is_open()) return false;
    if (launching_.load(std::memory_order_relaxed) && !sentinel_closes_.load(std::memory_order_relaxed)) return false;
    // It may yet be about to begin: it has nothing.
    if ((!fetcher.has_begun() || fetcher.is_marked()) && fetcher.revoke()) return true;
    // The neighbour's kernel may be launched only after that: it gets nothing then.
    fetcher.close();
    fetcher.skip_to(board.chunks());
    return fetcher.has_ended();
  }
  // Was there anything to be passed on?
  bool tend(Chunks& board) noexcept {
    const bool is_released = board.layout().released_after(0) >= board.chunks();
    if (!kernels_->any_relays() && by_kernel() && !is_released) return false;
    const std::lock_guard lock(giving_);
    const bool any = pass_on(board);
    // There is no room for all that they are to do without at once.
    for (LinkKernel& kernel : kernels()) {
      if (is_released) kernel.close();
      if (kernel.is_there() && !kernel.is_open()) kernel.skip_to(board.chunks());
    }
    for (std::size_t i = 1; i < kernels().size(); ++i) has_ended_relay(board, i);
    return any;
  }
  // Copies that come behind kernels in a queue of the device's: these wait for chunks, whose places the copies are to
  // empty.
  void let_copies_by(Chunks& board) noexcept {
    constexpr auto long_time = std::chrono::milliseconds(5);
    if (is_let_by_ || engine_->has_copied(issued_) || std::chrono::steady_clock::now() - issued_at_ < long_time) return;
    is_let_by_ = true;
    revoke(board);
  }

  // One that has begun and not told yet how it goes on is asked again later: no call of the driver's with the mutex.
  bool revoke_one(Chunks& board, std::size_t kernel) noexcept {
    if (!kernels()[kernel].is_there() || !kernels()[kernel].revoke()) return false;
    take_back(board, kernel);
    if (kernel == 0) observe::count_copy(observe::CopyCounter::kernel_revoked);
    return true;
  }
  void close_all(Chunks& board) noexcept {
    const std::lock_guard lock(giving_);
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      if (!kernels()[i].is_there() || revoke_one(board, i)) continue;
      kernels()[i].close();
      kernels()[i].skip_to(board.chunks());
    }
    pass_on(board);
    for (std::size_t i = 1; i < kernels().size(); ++i) has_ended_relay(board, i);
    kernels_wait_.store(false, std::memory_order_relaxed);
  }

  // A device that does not get to its kernel has other work.
  void revoke_the_late(Chunks& board) noexcept {
    const auto is_late = [this](const LinkKernel& kernel) {
      if (!kernel.is_there() || kernel.is_marked()) return kernel.is_there();
      return !kernel.has_begun() && kernel.age() > GatherKernel::start_timeout(plan_->bytes);
    };
    const auto is_settled = [](const LinkKernel& kernel) {
      return !kernel.is_there() || (kernel.has_begun() && !kernel.is_marked());
    };
    if (all_have_begun_) return;
    const std::lock_guard lock(giving_);
    all_have_begun_ = true;
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      if (is_late(kernels()[i])) revoke_one(board, i);
      all_have_begun_ = all_have_begun_ && is_settled(kernels()[i]);
      LinkKernel& fetcher = kernels_->relay(i).fetcher();
      if (is_late(fetcher) && fetcher.revoke()) kernels()[i].close();
      all_have_begun_ = all_have_begun_ && is_settled(fetcher);
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
      {
        const DriverCall call(driver_calls_);
        result = engine_->copy(std::span(copies).first(count), issued_);
      }
      issued_at_ = std::chrono::steady_clock::now();
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
      if (may_leave && revoke_one(board, i)) continue;
      kernel.close();
      kernel.skip_to(board.chunks());
      ended = kernel.has_ended() && ended;
    }
    pass_on(board);
    for (std::size_t i = 1; i < kernels().size(); ++i) ended = has_ended_relay(board, i) && ended;
    return ended && copies_.load(std::memory_order_relaxed) == issued_ && engine_->has_copied(issued_);
  }

  void check_health(Chunks& board) noexcept {
    if (const cuda::Result result = engine_->health(); result != cuda::success) return give_up(board, result);
    leave_the_lost(board);
  }
  // A neighbour's driver is asked only where its kernel has something to do, and has not done it for long: it may wait
  // for what waits for this read. With the mutex.
  bool is_stuck(std::size_t kernel) noexcept {
    constexpr auto long_time = std::chrono::milliseconds(250);
    LinkKernel& there = kernels()[kernel];
    if (!there.is_there()) return false;
    const std::uint32_t waiting = there.waiting();
    const auto now = std::chrono::steady_clock::now();
    Standstill& standstill = standstills_[kernel];
    const bool has_work = waiting > 0 || !there.is_open();
    // None looks while chunks are released: as many that wait later may be others.
    const bool is_anew = now - standstill.looked > long_time;
    if (!has_work || is_anew || waiting != standstill.waiting) standstill = {waiting, now, now};
    standstill.looked = now;
    return has_work && now - standstill.since > long_time;
  }
  // The driver is asked without the mutex: it may keep the caller waiting.
  void leave_the_lost(Chunks& board) noexcept {
    const DriverCall call(driver_calls_);
    std::array<bool, LinkKernels::most> are_lost{};
    {
      const std::lock_guard lock(giving_);
      for (std::size_t i = 1; i < kernels().size(); ++i) are_lost[i] = is_stuck(i);
      are_lost[0] = kernels()[0].is_there();
    }
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      are_lost[i] = are_lost[i] && kernels_->lease_of(i).device().health() != cuda::success;
    }
    const cuda::Result target = kernels_->any_relays() ? engine_->health() : cuda::success;
    // What is in relay memory is not fetched any more.
    if (target != cuda::success && !is_lost()) return give_up(board, target);
    const std::lock_guard lock(giving_);
    for (std::size_t i = 0; i < kernels().size(); ++i) {
      if (!kernels()[i].is_there() || !are_lost[i]) continue;
      if (i > 0) kernels_->neighbour_of(i).is_broken();
      kernels()[i].is_lost();
      take_back(board, i);
    }
    if (target == cuda::success) return;
    for (std::size_t i = 1; i < kernels().size(); ++i) {
      LinkRelay& relay = kernels_->relay(i);
      if (!relay.fetcher().is_there()) continue;
      relay.take_back([](std::uint32_t) {});
      relay.fetcher().is_lost();
      kernels_->neighbour_of(i).target_is_lost();
    }
  }

  // The target refuses, or is lost.
  void give_up(Chunks& board, cuda::Result result) noexcept {
    failure_ = result;
    board.layout().stop();
    lost_.store(true, std::memory_order_release);
    // Before copies are waited for: they may stand behind kernels, which wait for chunks that do not come any more.
    sentinel_closes_.store(true, std::memory_order_relaxed);
    close_all(board);
    engine_->give_up();
  }
  // No thread leaves while a kernel may still write there.
  void end_kernels(Chunks& board) noexcept {
    base::SpinBackoff backoff;
    for (bool ended = false; !ended; backoff.wait()) {
      close_all(board);
      {
        const std::lock_guard lock(giving_);
        ended = true;
        for (LinkKernel& kernel : kernels()) ended = kernel.has_ended() && ended;
        for (std::size_t i = 1; i < kernels().size(); ++i) ended = has_ended_relay(board, i) && ended;
      }
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
  std::chrono::steady_clock::time_point issued_at_{};
  bool is_let_by_ = false;
  // The sentinel's.
  StuckReader stuck_reader_;
  std::uint32_t calls_before_ = 0;
  std::atomic<bool> sentinel_closes_{false};

  base::AdaptiveMutex giving_;                          // of the kernels, and of all that follows, up to the atomics
  std::array<std::uint32_t, Chunks::depth> to_copy_{};  // chunks, by the number of their copy
  std::uint64_t lent_bytes_ = 0;
  std::array<Standstill, LinkKernels::most> standstills_;

  std::atomic<bool> kernels_wait_{false};
  std::atomic<bool> launching_{false};
  std::atomic<std::uint32_t> driver_calls_{0};  // of the caller's: begun and ended ones; odd: it is in one
  std::atomic<bool> lost_{false};
  alignas(base::line_bytes) std::atomic<std::uint32_t> copies_{0};  // given to the copy engine so far
  // By the chunk's place among the states: the chunk, plus one, and its carrier; and the copy that takes it, plus one.
  alignas(base::line_bytes) std::array<std::atomic<std::uint32_t>, Chunks::depth> given_{};
  std::array<std::atomic<std::uint32_t>, Chunks::depth> copy_of_{};
};

}  // namespace sluice::transfer
