// SPDX-License-Identifier: Apache-2.0
// How transfers past the page cache wait for the device. One alone looks for the end of its last copy all the time.
// Where several large ones are under way and the disk keeps each of them for long, their bytes come when they come, and
// a copy of what a host has just written for a virtual disk takes 100 us and more, of which looking would take a
// processor every one. There, a thread sleeps, and sees the end some 70 us late.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/spin_backoff.h"
#include "workers/active_count.h"

namespace sluice::workers {

class SlowDiskGauge {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t large = 512 << 10;
  static constexpr unsigned enough = 4;
  static constexpr auto long_time = std::chrono::milliseconds(1);

  // One transfer, for as long as this lives.
  class Scope {
   public:
    Scope(SlowDiskGauge& gauge, std::uint64_t bytes) noexcept : gauge_(gauge) {
      if (bytes < large) return;
      counted_.emplace(gauge.count_);
      began_ = Clock::now();
    }
    ~Scope() {
      if (counted_) gauge_.learn(Clock::now() - began_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    base::WaitMode waits() const noexcept {
      return counted_ && gauge_.is_patient() ? base::WaitMode::sleep : base::WaitMode::spin;
    }

   private:
    SlowDiskGauge& gauge_;
    Clock::time_point began_{};
    std::optional<ActiveCount::Scope> counted_;  // if it is large
  };

  // How long a large one took: the last one is believed.
  void learn(std::chrono::nanoseconds took) noexcept { last_took_.store(took, std::memory_order_relaxed); }

  // A child of fork has none of its parent's other threads.
  void forget() noexcept { count_.forget(); }

 private:
  bool is_patient() const noexcept {
    return count_.now() >= enough && last_took_.load(std::memory_order_relaxed) >= long_time;
  }

  ActiveCount count_;  // of large ones
  std::atomic<std::chrono::nanoseconds> last_took_{};
};

inline constinit SlowDiskGauge slow_disk_gauge;

}  // namespace sluice::workers
