// SPDX-License-Identifier: Apache-2.0
// How long what a carrier of chunks has to do will take it, by what it was seen to do. Places are taken again in the
// order of chunks, so a carrier that is slow is to have few: as many as wait for a quick one would hold it up.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sluice::transfer {

class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  // Idle until now, it has got something to do.
  void begins(Clock::time_point now) noexcept { since_ = now; }
  // It is seen to be through with so many more. Who looks may come late: one look alone does not make it slow.
  void has_done(std::uint32_t chunks, Clock::time_point now) noexcept {
    const Clock::duration took = (now - since_) / chunks;
    each_ = is_known_ ? (3 * each_ + std::min(took, 4 * each_)) / 4 : std::min(took, 16 * each_);
    each_ = std::max<Clock::duration>(each_, std::chrono::microseconds(1));
    is_known_ = true;
    since_ = now;
  }
  // When would it be through with one more than the `waiting`? What has stopped takes longer with every look; and what
  // has had nothing for long is tried again, as it may be quicker by now.
  Clock::duration for_one_more(std::uint32_t waiting, Clock::time_point now) const noexcept {
    if (waiting == 0) return now - since_ > 16 * each_ ? Clock::duration::zero() : each_;
    return (waiting + 1) * std::max(each_, now - since_);
  }

 private:
  Clock::duration each_ = std::chrono::microseconds(10);  // a guess, for all alike, until the first look
  bool is_known_ = false;
  Clock::time_point since_{};  // it was seen to be through with one, or began
};

}  // namespace sluice::transfer
