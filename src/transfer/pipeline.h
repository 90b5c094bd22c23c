// SPDX-License-Identifier: Apache-2.0
// A read into device memory: the calling thread and its helpers claim chunks and read them into places; the board
// releases them in order; the sink takes them out of their places.
//
//   Layout   which chunks there are (layout.h)
//   Source   what brings a chunk into a place (source/page_cache.h)
//   Sink     what takes it from there (sink/staged.h)
//
// Parts are chosen when this is compiled: no call through a pointer and no allocation for a chunk.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/spin_backoff.h"
#include "io/sentinel.h"
#include "staging/slot_cursor.h"
#include "staging/staging_buffer.h"
#include "transfer/board.h"
#include "transfer/plan.h"
#include "workers/helper_sleep.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

inline constinit thread_local workers::HelperSleep helper_sleep;

template <typename Layout, typename Source, typename Sink>
class Pipeline final : public workers::Job, public io::Sentinel::Charge {
 public:
  Pipeline(Layout& layout, Source source) noexcept : board_(layout), source_(source) {}

  // Returns when nothing of it is under way. With the buffer's context current.
  void run(staging::StagingLease& lease, const ReadPlan& plan, bool by_kernel) noexcept {
    plan_ = &plan;
    board_.begin(lease.numbers(plan.chunks));
    sink_.begin(board_, lease, plan, by_kernel);
    const workers::JobScope scope(*this, plan.helpers);
    if (by_kernel) sink_.launch(board_);
    std::optional<io::Sentinel::Watch> watch;
    if constexpr (Source::may_wait) {
      if (sink_.by_kernel() && !watch.emplace(*this)) sink_.revoke(board_);
    }
    const auto began = plan.tells ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    // The first chunk is the caller's: revoking a launch needs its ticket.
    staging::SlotCursor cursor(plan.slots, 0);
    for (std::uint32_t chunk = 0; chunk < plan.chunks; chunk = board_.claim()) {
      wait_for_room(cursor, chunk);
      if (sink_.is_lost()) break;
      read(cursor, chunk);
      sink_.has_read_one(board_);
    }
    if (plan.tells && sink_.by_kernel() && !board_.comes_short() && workers::active_jobs() == 1) {
      lease.tuner_for(plan.bytes)
          .learn(std::chrono::steady_clock::now() - began, plan.bytes, plan.helpers < workers::worker_count());
    }
    sink_.finish(board_);
  }

  int failure() const noexcept { return sink_.failure(); }

  void run_helper(unsigned number) noexcept override {
    staging::SlotCursor cursor(plan_->slots, number);
    bool may_sleep = plan_->helpers_sleep && helper_sleep.is_allowed();
    for (;;) {
      while (may_sleep && is_ahead(cursor)) may_sleep = helper_sleep.take();
      const std::uint32_t chunk = board_.claim();
      if (chunk >= plan_->chunks) return;
      base::SpinBackoff backoff;
      while (!has_room(cursor, chunk)) backoff.wait();
      if (sink_.is_lost()) return;
      read(cursor, chunk);
    }
  }

  void look_in() noexcept override {
    if constexpr (Source::may_wait) {
      sink_.look_in(board_, [this] { release(0); });
    }
  }

 private:
  bool has_room(const staging::SlotCursor& cursor, std::uint32_t chunk) const noexcept {
    if (chunk >= board_.depth && !sink_.has_left(board_, chunk - board_.depth)) return false;
    const std::optional<std::uint32_t> before = cursor.in_the_way_of(chunk);
    return !before || sink_.has_left(board_, *before);
  }

  // Its places are full, and so much is unclaimed that the request will not end before the next sleep does.
  bool is_ahead(const staging::SlotCursor& cursor) const noexcept {
    const std::optional<std::uint32_t> before = cursor.in_the_way();
    return before && sink_.by_kernel() && !board_.comes_short() &&
           board_.unclaimed() + plan_->slots.count <= plan_->chunks && !sink_.has_left(board_, *before);
  }

  // The caller's.
  void wait_for_room(const staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    if (has_room(cursor, chunk)) return;
    base::SpinBackoff backoff = sink_.backoff();
    do {
      sink_.look_after(board_, backoff);
    } while (!has_room(cursor, chunk));
  }

  void read(staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    const std::uint32_t slot = cursor.slot_for(chunk);
    cursor.has_read(chunk);
    board_.begin_reading(chunk, slot);
    if (board_.is_wanted(chunk)) {
      const Chunk wanted = board_.layout()[chunk];
      board_.has_read(chunk, wanted.length, source_.read(wanted, chunk, sink_.place(slot)));
    }
    board_.is_ready(chunk);
    release(chunk);
  }

  void release(std::uint32_t chunk) noexcept {
    board_.release(chunk, source_,
                   [this](std::uint32_t next, const ChunkState& state) { sink_.publish(board_, next, state); });
  }

  const ReadPlan* plan_ = nullptr;
  Board<Layout> board_;
  [[no_unique_address]] Source source_;
  Sink sink_;
};

}  // namespace sluice::transfer
