// SPDX-License-Identifier: Apache-2.0
// Waiting for something that another thread is about to do and does not signal: a bounded spin, then sleeps that grow.
// A loop that only yields is no wait: on a busy machine, among priorities, the thread that yields may be the next to
// run.
#pragma once

#include <time.h>

#include <algorithm>

#include "base/processor.h"

namespace sluice::base {

class Backoff {
 public:
  // Between two looks.
  void wait() noexcept {
    if (looks_ < most_looks) {
      ++looks_;
      relax();
      return;
    }
    const timespec sleep_for{0, sleep_ns_};
    ::nanosleep(&sleep_for, nullptr);
    sleep_ns_ = std::min(2 * sleep_ns_, longest_sleep_ns);
  }

 private:
  static constexpr int most_looks = 200;  // what is held for less than a microsecond is let go by then
  static constexpr long longest_sleep_ns = 1'000'000;
  int looks_ = 0;
  long sleep_ns_ = 20'000;
};

}  // namespace sluice::base
