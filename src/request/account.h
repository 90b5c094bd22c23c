// SPDX-License-Identifier: Apache-2.0
// What is told of transfers that have ended: counters by path and reason, trace, statistics, and the log where one took
// too long.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/outcome.h"
#include "base/strong.h"
#include "observe/log.h"
#include "observe/path_counters.h"
#include "observe/statistics.h"
#include "observe/thread_slot.h"
#include "request/item.h"
#include "request/run.h"
#include "request/slow_log.h"

namespace sluice::request {

// Which way an item went, as far as it got.
struct Way {
  const paths::Path* path = nullptr;  // none: it was refused before
  route::Reason reason = SLUICE_REASON_HOST_MEMORY;
  base::Outcome outcome = base::Outcome::bytes(0);  // of what went this way
};

// Lives on one thread while one item is under way, or a group. Items that end together are counted together.
class Account {
 public:
  Account(Caller caller, base::Direction direction, std::uint64_t bytes, std::uint64_t items) noexcept
      : caller_(caller),
        counting_(caller != Caller::part && observe::statistics_running()),
        tracing_(observe::log_enabled(config::LogLevel::trace)),
        under_way_(direction, counting_ ? bytes : 0, counting_ ? items : 0, thread_) {
    if (counting_) [[unlikely]] {
      begun_ = std::chrono::steady_clock::now();
    } else if (caller != Caller::part) {
      timer_.emplace();
    }
  }
  ~Account() { flush(); }
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  // Milliseconds until now. Asked before items are told that end now, once for all of them.
  std::int64_t so_far() noexcept {
    if (counting_) [[unlikely]]
      return look_at_clock();
    return timer_ ? timer_->so_far() : 0;
  }
  void ended(const Item& item, const Way& way, std::int64_t milliseconds) noexcept {
    if (way.path != nullptr) {
      const observe::Way went{way.path->traits.id, way.reason, item.call.direction};
      if (went != way_) [[unlikely]] {
        flush();
        way_ = went;
      }
      tally_.add(way.outcome);
      if (tracing_) [[unlikely]]
        trace(item, way);
    }
    if (caller_ != Caller::part) TransferTimer::end(*item.file, item.call, item.outcome, milliseconds);
    if (counting_) [[unlikely]]
      count(item);
  }
  // Most of a group go the same way: these are added up until now.
  void flush() noexcept {
    if (tally_.transfers == 0 && !ended_) return;
    observe::count_path(way_, tally_, thread_, ended_ ? &*ended_ : nullptr);
    tally_ = {};
    ended_.reset();
  }

 private:
  static void trace(const Item& item, const Way& way) noexcept;
  std::int64_t look_at_clock() noexcept;
  void count(const Item& item) noexcept;

  const Caller caller_;
  const bool counting_;
  const bool tracing_;
  const observe::ThreadSlot thread_ = observe::thread_slot();
  std::optional<TransferTimer> timer_;  // while nothing counts
  observe::UnderWay under_way_;
  observe::Way way_{};
  observe::Tally tally_;
  // While something counts.
  std::chrono::steady_clock::time_point begun_;
  std::chrono::nanoseconds elapsed_{};
  std::optional<observe::Transfers> ended_;  // and are not counted yet
};

}  // namespace sluice::request
