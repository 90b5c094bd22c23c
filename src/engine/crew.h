// How many hands a large request is given beyond the usual number. Usual is what keeps a device busy from the page
// cache of most file systems; where reading is slower, as from the small pages of tmpfs, more hands cost no more
// processor time: those that there are do not wait any less.
#pragma once

#include <algorithm>
#include <chrono>

namespace sluice::engine {

class Crew {
 public:
  static constexpr unsigned most_beyond = 4;
  // By chance a request of hands enough does without waiting, too.
  static constexpr unsigned telling = 3;

  unsigned beyond_usual() const noexcept { return beyond_; }

  // A request took so long, and so much of it one of its hands waited for the device to leave room. Where several in a
  // row hardly ever did, another hand makes them quicker and costs nothing. Where one waited for a twentieth, hands
  // beyond the usual number cost more than they bring.
  void learn(std::chrono::nanoseconds waited, std::chrono::nanoseconds whole) noexcept {
    if (waited * 1000 < whole) {
      if (++without_waiting_ < telling) return;
      beyond_ = std::min(beyond_ + 1, most_beyond);
    } else if (waited * 20 > whole && beyond_ > 0) {
      --beyond_;
    }
    without_waiting_ = 0;
  }

 private:
  unsigned beyond_ = 0;
  unsigned without_waiting_ = 0;  // requests in a row
};

}  // namespace sluice::engine
