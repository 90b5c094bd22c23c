// SPDX-License-Identifier: Apache-2.0
// Whether the host of a virtual machine leaves it the processors that a read by several links takes. Such a read has
// more threads than one link wants, and one that stands still holds up its chunk: on two H200s whose host took 2 % of
// all processors' time two links were as fast as one, with 10 % half as fast, and with none 1.7 times.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/adaptive_mutex.h"
#include "facts/processor_time.h"

namespace sluice::staging {

class StealGauge {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  // So much time of such reads is looked at, and then so much is not, the more the longer nothing was taken.
  static constexpr std::chrono::milliseconds window{100};
  static constexpr std::chrono::milliseconds longest_pause{1000};
  // One part in so many of all processors' time is too much, where it is more than chance.
  static constexpr std::uint64_t too_much = 64;
  static constexpr std::uint64_t fewest_ticks = 4;
  // Then reads go by one link for as long, twice as long each time in a row.
  static constexpr std::chrono::seconds first_rest{1};
  static constexpr std::chrono::seconds longest_rest{32};

  bool allows(Time now) const noexcept {
    return now.time_since_epoch().count() >= not_before_.load(std::memory_order_relaxed);
  }

  struct Read {
    Time began;
    std::optional<facts::ProcessorTime> before;  // where it is looked at
  };
  // Around each read by several links. `look` answers std::optional<facts::ProcessorTime>, in a part of a millisecond.
  template <typename Look>
  Read begins(Time now, Look&& look) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return {now, lock && not_looked_at_ >= pause_ ? look() : std::nullopt};
  }
  template <typename Look>
  void has_ended(const Read& read, Time now, Look&& look) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    // The last ones end when the rest has begun.
    if (!lock || !allows(now)) return;
    if (!read.before) {
      not_looked_at_ += now - read.began;
      return;
    }
    const std::optional<facts::ProcessorTime> after = look();
    if (!after || after->all < read.before->all || after->stolen < read.before->stolen) return;
    all_ += after->all - read.before->all;
    stolen_ += after->stolen - read.before->stolen;
    looked_at_ += now - read.began;
    if (looked_at_ >= window) judge(now, after->stolen != 0);
  }

 private:
  void judge(Time now, bool is_ever_stolen) noexcept {
    const bool is_much = stolen_ * too_much >= all_ && stolen_ > 0;
    if (is_much && stolen_ < fewest_ticks) return;  // a longer look will tell
    if (is_much) {
      if (now - rested_until_ > longest_rest) rest_ = {};
      rest_ = std::clamp(2 * rest_, first_rest, longest_rest);
      rested_until_ = now + rest_;
      not_before_.store(rested_until_.time_since_epoch().count(), std::memory_order_relaxed);
      pause_ = {};
    } else {
      rest_ = {};
      pause_ = is_ever_stolen ? std::clamp(2 * pause_, window, longest_pause) : longest_pause;
    }
    all_ = stolen_ = 0;
    looked_at_ = not_looked_at_ = {};
  }

  base::AdaptiveMutex mutex_;
  std::uint64_t all_ = 0;  // of what is looked at, as the next two
  std::uint64_t stolen_ = 0;
  Clock::duration looked_at_{};
  Clock::duration not_looked_at_{};
  std::chrono::milliseconds pause_{};
  std::chrono::seconds rest_{};
  Time rested_until_{};
  std::atomic<Clock::rep> not_before_{Time::min().time_since_epoch().count()};
};

inline constinit StealGauge steal_gauge;

}  // namespace sluice::staging
