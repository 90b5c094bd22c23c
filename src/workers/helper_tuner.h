// SPDX-License-Identifier: Apache-2.0
// How many helpers a large request is given beyond the usual number. Usual is what keeps a device busy from the page
// cache of most file systems; where reading is slower, as from the small pages of tmpfs, more helpers cost no more
// processor time: together they spend what the bytes take, only sooner.
//
// Nothing but trial tells where that is so. Requests wait for the device, and for a helper that lost its processor for
// a moment, and both look the same to them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sluice::workers {

// For requests of about the same length.
class HelperTuner {
 public:
  static constexpr unsigned most_extra = 4;
  // Requests that are looked at together, fewer where they are longer. The quickest of them counts: others may have
  // been disturbed.
  static constexpr unsigned sample_size = 8;
  static constexpr unsigned sample_size_of_long = 4;
  static constexpr std::uint64_t sample_bytes = std::uint64_t{512} << 20;
  // After a trial that was in vain, so many times as many go by before the next one of its kind; then twice that. One
  // helper too many costs some processor time, and one too few makes requests slower: fewer helpers are tried rarely,
  // and the more rarely the more of them have been of use.
  static constexpr unsigned pause_after_more = 1;
  static constexpr unsigned pause_after_less = 16;
  static constexpr unsigned longest_pause = 128;

  unsigned extra_helpers() const noexcept { return extra_; }

  // A request of so many bytes took so long. One more could come, or there are no more helpers.
  void learn(std::chrono::nanoseconds whole, std::uint64_t bytes, bool one_more_could_come) noexcept {
    const double pace = static_cast<double>(whole.count()) / static_cast<double>(std::max<std::uint64_t>(1, bytes));
    quickest_ = std::min(quickest_, pace);
    bytes_ += bytes;
    if (++seen_ == sample_size || (seen_ >= sample_size_of_long && bytes_ >= sample_bytes)) {
      judge(one_more_could_come && extra_ < most_extra);
    }
  }

 private:
  enum class Trial : std::uint8_t { none, one_more, one_less };

  class Trials {
   public:
    explicit Trials(unsigned shortest_pause) noexcept : shortest_pause_(shortest_pause) {}

    // Asked where a trial of this kind could begin; each question brings the next one nearer.
    bool are_due() noexcept { return left_of_pause_ == 0 || --left_of_pause_ == 0; }
    void begin_anew() noexcept { pause_ = left_of_pause_ = 0; }
    void was_in_vain() noexcept { pause_ = left_of_pause_ = std::clamp(pause_ * 2, shortest_pause_, longest_pause); }

   private:
    unsigned shortest_pause_;
    unsigned pause_ = 0;
    unsigned left_of_pause_ = 0;
  };

  // One more among eight to eleven that never waits would save a ninth to a twelfth. Worth having is one that
  // waits for less than half of its time, or not at all where there are many; it is not missed any more when it brings
  // half as much.
  static constexpr double worth_having = 1 - 1.0 / 16;
  static constexpr double not_missed = 1 + 1.0 / 32;

  void judge(bool may_grow) noexcept {
    if (trial_ == Trial::one_more && quickest_ > before_ * worth_having) {
      --extra_;
      of_more_.was_in_vain();
      return sample_anew(Trial::none);
    }
    if (trial_ == Trial::one_less && quickest_ > before_ * not_missed) {
      ++extra_;
      of_less_.was_in_vain();
      return sample_anew(Trial::none);
    }
    Trial next = trial_;  // one that was not in vain is followed by another
    if (next == Trial::one_more) {
      of_more_.begin_anew();
      of_less_.was_in_vain();  // would have been: this helper is of use
    } else if (next == Trial::one_less) {
      of_less_.begin_anew();
      of_more_.begin_anew();  // its pauses were another helper's
    } else {
      const bool less = of_less_.are_due();
      if (may_grow && of_more_.are_due()) {
        next = Trial::one_more;
      } else if (less) {
        next = Trial::one_less;
      }
    }
    begin(next, may_grow);
  }

  void begin(Trial trial, bool may_grow) noexcept {
    before_ = quickest_;
    if (trial == Trial::one_more && may_grow) {
      ++extra_;
    } else if (trial == Trial::one_less && extra_ > 0) {
      --extra_;
    } else {
      trial = Trial::none;
    }
    sample_anew(trial);
  }

  void sample_anew(Trial trial) noexcept {
    trial_ = trial;
    seen_ = 0;
    bytes_ = 0;
    quickest_ = std::numeric_limits<double>::max();
  }

  unsigned extra_ = 0;
  Trial trial_ = Trial::none;
  double before_ = 0;  // the quickest request before the trial, in nanoseconds a byte
  Trials of_more_{pause_after_more};
  Trials of_less_{pause_after_less};
  // Of the requests that are being looked at:
  unsigned seen_ = 0;
  std::uint64_t bytes_ = 0;
  double quickest_ = std::numeric_limits<double>::max();
};

// One for each range of lengths: the longer a request, the less its beginning counts for its pace.
class HelperTuners {
 public:
  static constexpr std::array limits{std::uint64_t{32} << 20, std::uint64_t{128} << 20};

  HelperTuner& for_requests_of(std::uint64_t bytes) noexcept {
    return tuners_[static_cast<std::size_t>(std::ranges::count_if(limits, [=](auto limit) { return bytes > limit; }))];
  }

 private:
  std::array<HelperTuner, limits.size() + 1> tuners_;
};

}  // namespace sluice::workers
