// How many hands a large request is given beyond the usual number. Usual is what keeps a device busy from the page
// cache of most file systems; where reading is slower, as from the small pages of tmpfs, more hands cost no more
// processor time: those that there are do not wait any less.
//
// Whether one more is worth having is tried: so many requests with it must be quicker than as many before them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace sluice::engine {

class Crew {
 public:
  static constexpr unsigned most_beyond = 4;
  // Requests that are looked at together. The quickest of them counts: others may have been disturbed.
  static constexpr unsigned telling = 8;
  // After a hand that was not worth having, so many times as many go by before the next one is tried; then twice that.
  static constexpr unsigned shortest_pause = 4;
  static constexpr unsigned longest_pause = 1024;

  unsigned beyond_usual() const noexcept { return beyond_; }

  // A request of so many bytes took so long, and so much of it one of its hands waited for the device to leave room.
  void learn(std::chrono::nanoseconds waited, std::chrono::nanoseconds whole, std::uint64_t bytes) noexcept {
    // The device is what bounds it, by far.
    if (waited * 20 > whole && beyond_ > 0) return send_one_away();
    const double pace = static_cast<double>(whole.count()) / static_cast<double>(std::max<std::uint64_t>(1, bytes));
    quickest_ = std::min(quickest_, pace);
    if (waited * 1000 < whole) ++without_waiting_;
    if (++seen_ == telling) judge();
  }

 private:
  // One among eight or more that brings a fourth of its share; less is noise.
  static constexpr double worth_having = 1 - 1.0 / 32;

  void send_one_away() noexcept {
    --beyond_;
    pause_ = left_of_pause_ = std::clamp(pause_ * 2, shortest_pause, longest_pause);
    look_anew();
  }

  void judge() noexcept {
    if (trying_) {
      if (quickest_ > before_ * worth_having) return send_one_away();
      pause_ = 0;
    } else if (without_waiting_ * 2 < telling && beyond_ > 0) {
      return send_one_away();
    } else if (left_of_pause_ > 0) {
      --left_of_pause_;
    } else if (without_waiting_ * 4 >= telling * 3 && beyond_ < most_beyond) {
      const double quickest = quickest_;
      look_anew();
      ++beyond_;
      before_ = quickest;
      trying_ = true;
      return;
    }
    look_anew();
  }

  void look_anew() noexcept {
    trying_ = false;
    seen_ = without_waiting_ = 0;
    quickest_ = std::numeric_limits<double>::max();
  }

  unsigned beyond_ = 0;
  bool trying_ = false;  // the last of these hands
  double before_ = 0;    // the quickest request without it, in nanoseconds a byte
  unsigned pause_ = 0;
  unsigned left_of_pause_ = 0;
  // Of the requests that are being looked at:
  unsigned seen_ = 0;
  unsigned without_waiting_ = 0;
  double quickest_ = std::numeric_limits<double>::max();
};

}  // namespace sluice::engine
