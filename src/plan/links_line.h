// SPDX-License-Identifier: Apache-2.0
// Large reads of plans into one device that others lend their links to. One after the other each has all links and all
// readers; side by side one has the neighbours, and all have too few readers. So one is under way until it hands its
// links on, or has ended; the next one waits on its worker, and the plans of the others are notified when they may ask
// again. A read that takes long holds no other up: its storage may not answer.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/event_count.h"

namespace sluice::plan {

class LinksLine {
 public:
  static constexpr std::size_t most_plans = 64;
  // Those that are to ask again.
  class Plans {
   public:
    std::span<void* const> all() const noexcept { return {handles_.data(), count_}; }
    bool add(void* handle) noexcept;

   private:
    std::array<void*, most_plans> handles_{};
    std::size_t count_ = 0;
  };

  explicit LinksLine(std::chrono::milliseconds patience = std::chrono::milliseconds(100)) noexcept
      : patience_(patience) {}

  // A number for one more read; none where it is not to begin yet, and its plan will be notified. (Where too many plans
  // ask it may begin, beside others.)
  static constexpr std::uint64_t none = 0;
  std::uint64_t enter(void* plan) noexcept;
  // Returns when its turn has come.
  [[nodiscard]] Plans wait(std::uint64_t number) noexcept;
  // It is through.
  [[nodiscard]] Plans leave(std::uint64_t number) noexcept;

  // Around fork, all lines together: the child has none of those who stand in them.
  static void before_fork() noexcept { all_lines.lock(); }
  void forget_all() noexcept;
  static void after_fork() noexcept { all_lines.unlock(); }

 private:
  using Clock = std::chrono::steady_clock;

  // With the mutex held:
  Plans next_goes() noexcept;

  const std::chrono::milliseconds patience_;
  base::EventCount moved_;
  static inline std::mutex all_lines;  // held for a moment; guards all below
  std::uint64_t entered_ = 0;
  std::uint64_t goes_ = none;
  std::uint64_t is_ready_ = none;
  Clock::time_point since_{};  // one goes
  Plans plans_;
};

}  // namespace sluice::plan
