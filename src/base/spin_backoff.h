// SPDX-License-Identifier: Apache-2.0
// Waiting for something that another processor, or a device, is about to do.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/processor.h"

namespace sluice::base {

// EAGAIN, and EBUSY from io_uring, come from a kernel that is short of something for a moment (no descriptor of ours is
// O_NONBLOCK): worth some tries, not an endless loop.
inline constexpr int most_refusals_in_a_row = 64;

// Leaves the core's resources to its sibling for a moment.
inline void pause(int times = 1) noexcept {
  for (int i = 0; i < times; ++i) relax();
}

// CLOCK_MONOTONIC, so long from now: for base::EventCount.
inline timespec deadline_in(std::chrono::nanoseconds from_now) noexcept {
  timespec deadline{};
  ::clock_gettime(CLOCK_MONOTONIC, &deadline);
  const std::int64_t nanoseconds = deadline.tv_nsec + from_now.count();
  deadline.tv_sec += nanoseconds / 1'000'000'000;
  deadline.tv_nsec = nanoseconds % 1'000'000'000;
  return deadline;
}

// A word that another thread, or the device, writes: what was written before it is seen, too.
inline std::uint32_t load_acquire(const std::uint32_t& word) noexcept {
  return std::atomic_ref<const std::uint32_t>(word).load(std::memory_order_acquire);
}

enum class WaitMode : std::uint8_t {
  spin,
  yield,  // threads that wait outnumber processors: the one that is waited for may need this one
  sleep,  // it takes its time, and 70 us more do not matter
};

// One wait, from its first look to its last: busy for some microseconds, then lets others run, for a while that is over
// soon, then sleeps. Sleeps grow with the wait, so that a wait for storage that does not answer costs nothing worth
// mentioning.
class SpinBackoff {
 public:
  SpinBackoff() = default;
  // Sleeps only after so long: they take some 70 us at least.
  explicit SpinBackoff(std::chrono::microseconds awake) noexcept : awake_(awake) {}
  void wait(WaitMode waiting = WaitMode::spin) noexcept {
    if (waiting == WaitMode::sleep) return sleep();
    if (waiting == WaitMode::yield && looks_ < busy_looks) return make_way();
    ++looks_;
    if (looks_ < busy_looks) {
      pause();
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (began_ == std::chrono::steady_clock::time_point{}) began_ = now;
    const std::chrono::nanoseconds waited = now - began_;
    if (waited < awake_) {
      pause(16);
      ::sched_yield();
      return;
    }
    sleep_for(std::clamp(waited / part_of_wait, shortest_sleep, longest_sleep));
  }
  // Long enough that asking the driver for its health costs nothing worth mentioning.
  bool long_since() const noexcept { return looks_ > busy_looks && looks_ % 64 == 0; }

 private:
  static void sleep_for(std::chrono::nanoseconds length = shortest_sleep) noexcept {
    const timespec some{0, static_cast<long>(length.count())};
    ::nanosleep(&some, nullptr);
  }
  // Sleeps come sooner than to one that waits busily.
  void make_way() noexcept {
    looks_ += 8;
    ::sched_yield();
  }
  void sleep() noexcept {
    looks_ = (looks_ / looks_a_sleep + 1) * looks_a_sleep;  // behind other looks, too, long_since() comes true
    const std::chrono::nanoseconds length = std::chrono::microseconds(2) * (looks_ / looks_a_sleep);
    sleep_for(std::clamp(length, shortest_sleep, longest_sleep));
  }

  static constexpr int busy_looks = 2000;
  static constexpr std::chrono::nanoseconds shortest_sleep = std::chrono::microseconds(20);
  static constexpr std::chrono::nanoseconds longest_sleep = std::chrono::microseconds(500);
  static constexpr int part_of_wait = 32;
  static constexpr int looks_a_sleep = 64;
  int looks_ = 0;
  std::chrono::microseconds awake_{200};
  std::chrono::steady_clock::time_point began_{};
};

}  // namespace sluice::base
