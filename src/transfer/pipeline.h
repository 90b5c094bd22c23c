// SPDX-License-Identifier: Apache-2.0
// A read into device memory: the calling thread and its helpers claim chunks and read them into places; the board
// releases them in order; the sink takes them out of their places.
//
//   Layout   which chunks there are (layout.h)
//   Source   what brings a chunk into a place (source/page_cache.h); or keeps many on their way, for one thread that
//            needs no helpers (source/ring.h)
//   Sink     what takes it from there (sink/staged.h, sink/stream.h, sink/as_they_come.h)
//
// Parts are chosen when this is compiled: no call through a pointer and no allocation for a chunk.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/spin_backoff.h"
#include "io/sentinel.h"
#include "observe/probes.h"
#include "staging/slot_cursor.h"
#include "transfer/board.h"
#include "transfer/hand_on.h"
#include "transfer/plan.h"
#include "workers/helper_sleep.h"
#include "workers/reserve.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

inline constinit thread_local workers::HelperSleep helper_sleep;

// Of a pipeline's board, where its sink does with less.
template <typename Sink>
constexpr std::uint32_t board_depth() noexcept {
  if constexpr (requires { Sink::board_depth; }) {
    return Sink::board_depth;
  } else {
    return gpu::ticket_slots;
  }
}

// Does its sink take chunks by the caller alone, however they come? Then helpers leave it to that thread to release
// them, and do not all look at where the row is.
template <typename Sink>
constexpr bool caller_releases() noexcept {
  return requires {
    Sink::caller_releases;
  };
}

template <typename Layout, typename Source, typename Sink>
class Pipeline final : public workers::Job, public io::Sentinel::Charge {
 public:
  Pipeline(Layout& layout, Source source) noexcept : board_(layout), source_(source) {}

  // Returns when nothing of it is under way. Chunk 0 has this number (Board); what else the sink is to know comes last.
  template <typename... SinkArguments>
  void run(const ReadPlan& plan, std::uint32_t first_number, SinkArguments&&... sink_arguments) noexcept {
    plan_ = &plan;
    handed_on_ = false;
    board_.begin(first_number);
    sink_.begin(board_, plan, std::forward<SinkArguments>(sink_arguments)...);
    if constexpr (Source::is_asynchronous) {
      run_alone();
    } else {
      run_with_helpers();
    }
  }

  auto failure() const noexcept { return sink_.failure(); }
  const Source& source() const noexcept { return source_; }
  const Sink& sink() const noexcept { return sink_; }

  void run_helper(unsigned number) noexcept override {
    if constexpr (!Source::is_asynchronous) {
      staging::SlotCursor cursor(plan_->slots, number);
      bool may_sleep = plan_->helpers_sleep && helper_sleep.is_allowed();
      for (;;) {
        while (may_sleep && is_ahead(cursor)) may_sleep = helper_sleep.take();
        const std::uint32_t chunk = board_.claim();
        if (chunk >= plan_->chunks) return;
        base::SpinBackoff backoff;
        while (!sink_.has_room(board_, cursor, chunk)) backoff.wait();
        if (sink_.is_lost()) return;
        read(cursor, chunk);
      }
    }
  }

  void look_in() noexcept override {
    if constexpr (Source::may_wait) {
      sink_.look_in(board_, [this] { release(0); });
    }
  }

  // An asynchronous source's.
  Chunk chunk(std::uint32_t number) const noexcept { return board_.layout()[number]; }
  std::byte* place_of(std::uint32_t chunk) noexcept { return sink_.place(board_.state(chunk).slot); }
  bool is_wanted(std::uint32_t chunk) const noexcept { return board_.is_wanted(chunk); }
  void has_come(std::uint32_t chunk, std::int64_t outcome) noexcept {
    board_.has_read(chunk, board_.layout().length(chunk), outcome);
    board_.is_ready(chunk);
    release(chunk);
  }

 private:
  // The caller's.
  void finish() noexcept {
    {
      const observe::PhaseProbe phase(SLUICE_TRACE_DEVICE_WAIT);
      if constexpr (caller_releases<Sink>()) {
        for (base::SpinBackoff backoff; !sink_.has_sent_all(board_);) {
          release(0);
          sink_.look_after(board_, backoff);
        }
      }
      sink_.finish(board_);
    }
    observe::last_byte();
  }

  void run_with_helpers() noexcept {
    workers::JobScope scope(*this, plan_->helpers);
    const workers::ReserveScope reserve(*this, plan_->reserve);
    std::optional<io::Sentinel::Watch> watch;
    if constexpr (requires { Sink::launches_several; }) {
      if (watch.emplace(*this)) {
        sink_.launch(board_);
      } else {
        sink_.revoke(board_);
      }
    } else {
      sink_.launch(board_);
      if constexpr (Source::may_wait) {
        if (sink_.by_kernel() && !watch.emplace(*this)) sink_.revoke(board_);
      }
    }
    const auto began = plan_->tells ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    // The first chunk is the caller's: revoking a launch needs its ticket.
    staging::SlotCursor cursor(plan_->slots, 0);
    for (std::uint32_t chunk = 0; chunk < plan_->chunks; chunk = board_.claim()) {
      wait_for_room(cursor, chunk);
      if (sink_.is_lost()) break;
      read(cursor, chunk);
      release_as_caller();
      sink_.has_read_one(board_);
      look_after_links();
      hand_on(scope);
    }
    if (plan_->tells && sink_.by_kernel() && !board_.comes_short() && workers::active_jobs() == 1) {
      sink_.learn(std::chrono::steady_clock::now() - began);
    }
    finish();
  }

  // Once there is a chunk left for every second one of those who read.
  void hand_on(workers::JobScope& scope) noexcept {
    if constexpr (requires { sink_.hand_on(); }) {
      const std::uint32_t readers = 1 + plan_->helpers + plan_->reserve;
      if (handed_on_ || board_.unclaimed() + readers / 2 < plan_->chunks) return;
      handed_on_ = true;
      if (HandOn::is_awaited()) scope.is_nearly_through();
      sink_.hand_on();
    }
  }

  // Where links want looking after all the time, and others read, the caller reads only what keeps a link from idling.
  void look_after_links() noexcept {
    constexpr unsigned enough_readers = 4;
    constexpr auto patience = std::chrono::microseconds(200);  // helpers may be at another's
    if (plan_->helpers < enough_readers || sink_.is_idle()) return;
    base::SpinBackoff backoff = sink_.backoff();
    auto busy = std::chrono::steady_clock::now();
    while (board_.unclaimed() < plan_->chunks && !sink_.is_lost()) {
      sink_.look_after(board_, backoff);
      const auto now = std::chrono::steady_clock::now();
      if (!sink_.is_idle()) busy = now;
      if (now - busy > patience) return;
    }
  }

  // No thread leaves while the system may still write into a place.
  void run_alone() noexcept {
    std::uint32_t next = 0;
    base::SpinBackoff backoff = sink_.backoff();
    while (source_.is_busy() || (next < plan_->chunks && !sink_.is_lost())) {
      next = start_more(next);
      if (source_.is_busy()) {
        sink_.has_waited(board_, source_.await(*this, sink_.gathers()));
        backoff = sink_.backoff();
      } else if (next < plan_->chunks && !sink_.is_lost()) {
        sink_.look_after(board_, backoff);  // every place waits for the device
      }
    }
    finish();
  }

  // Answers the first chunk that has not been started.
  std::uint32_t start_more(std::uint32_t next) noexcept {
    const staging::SlotCursor cursor(plan_->slots, 0);
    sink_.update_room(board_);
    while (next < plan_->chunks && !sink_.is_lost() && source_.has_room()) {
      const std::uint32_t count = std::min(plan_->in_a_request, plan_->chunks - next);
      if (!sink_.has_room(board_, cursor, next + count - 1)) break;
      const bool wanted = board_.is_wanted(next);
      for (std::uint32_t chunk = next; chunk < next + count; ++chunk) {
        board_.begin_reading(chunk, sink_.slot_for(cursor, chunk));
        if (!wanted) has_come_empty(chunk);
      }
      if (wanted) source_.start(*this, next, count);
      next += count;
    }
    return next;
  }
  void has_come_empty(std::uint32_t chunk) noexcept {
    board_.is_ready(chunk);
    release(chunk);
  }

  // Its places are full, and so much is unclaimed that the request will not end before the next sleep does.
  bool is_ahead(const staging::SlotCursor& cursor) const noexcept {
    const std::optional<std::uint32_t> before = cursor.in_the_way();
    return before && sink_.by_kernel() && !board_.comes_short() &&
           board_.unclaimed() + plan_->slots.count <= plan_->chunks && !sink_.has_left(board_, *before);
  }

  // The caller's.
  void wait_for_room(const staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    if (sink_.has_room(board_, cursor, chunk)) return;
    base::SpinBackoff backoff = sink_.backoff();
    do {
      release_as_caller();
      sink_.look_after(board_, backoff);
    } while (!sink_.has_room(board_, cursor, chunk));
  }

  void read(staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    const std::uint32_t slot = sink_.slot_for(cursor, chunk);
    cursor.has_read(chunk);
    board_.begin_reading(chunk, slot);
    if (board_.is_wanted(chunk)) {
      const Chunk wanted = board_.layout()[chunk];
      board_.has_read(chunk, wanted.length, source_.read(wanted, chunk, sink_.place(slot)));
    }
    // Where no sentinel may come to release in its place, it needs no turn.
    if constexpr (!Source::may_wait) {
      if (board_.layout().is_alone_in_row(chunk)) return board_.release_alone(chunk, source_, publisher());
    }
    board_.is_ready(chunk);
    if constexpr (!caller_releases<Sink>()) release(chunk);
  }

  void release_as_caller() noexcept {
    if constexpr (caller_releases<Sink>()) release(0);
  }

  auto publisher() noexcept {
    return [this](std::uint32_t next, ChunkState& state) {
      sink_.publish(board_, next, state);
      if (next == 0) observe::first_byte();
    };
  }
  void release(std::uint32_t chunk) noexcept { board_.release(chunk, source_, publisher()); }

  const ReadPlan* plan_ = nullptr;
  bool handed_on_ = false;  // the caller's
  Board<Layout, board_depth<Sink>()> board_;
  [[no_unique_address]] Source source_;
  Sink sink_;
};

}  // namespace sluice::transfer
