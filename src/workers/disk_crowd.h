// How transfers past the page cache wait for the device. One alone looks for the end of its last copy all the time.
// Where several large ones are under way and the disk keeps each of them for long, their bytes come when they come, and
// a copy of what a host has just written for a virtual disk takes 100 us and more, of which looking would take a
// processor every one. There, a thread sleeps, and sees the end some 70 us late.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/pause.h"
#include "workers/headcount.h"

namespace sluice::workers {

class DiskCrowd {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t large = 512 << 10;
  static constexpr unsigned enough = 4;
  static constexpr auto long_time = std::chrono::milliseconds(1);

  // One transfer, for as long as this lives.
  class Member {
   public:
    Member(DiskCrowd& crowd, std::uint64_t bytes) noexcept : crowd_(crowd) {
      if (bytes < large) return;
      counted_.emplace(crowd.count_);
      began_ = Clock::now();
    }
    ~Member() {
      if (counted_) crowd_.learn(Clock::now() - began_);
    }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    base::Waiting waits() const noexcept {
      return counted_ && crowd_.is_patient() ? base::Waiting::asleep : base::Waiting::busily;
    }

   private:
    DiskCrowd& crowd_;
    Clock::time_point began_{};
    std::optional<Headcount::Member> counted_;  // if it is large
  };

  // How long a large one took: the last one is believed.
  void learn(std::chrono::nanoseconds took) noexcept { last_took_.store(took, std::memory_order_relaxed); }

  // A child of fork has none of its parent's other threads.
  void forget() noexcept { count_.forget(); }

 private:
  bool is_patient() const noexcept {
    return count_.now() >= enough && last_took_.load(std::memory_order_relaxed) >= long_time;
  }

  Headcount count_;  // of large ones
  std::atomic<std::chrono::nanoseconds> last_took_{};
};

inline constinit DiskCrowd disk_crowd;

}  // namespace sluice::workers
