// SPDX-License-Identifier: Apache-2.0
// How long a test tries to have something carried by a kernel of the library. Launches that the device does not begin
// in time are revoked, and then the library rests, for longer and longer: on a busy machine there may be none that
// carries.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>

#include "sluice.h"
#include "support/calls.h"
#include "support/deadline.h"

namespace sluice::support {

inline constexpr const char* kTooBusyForKernels = "this machine is too busy to begin a kernel in time";

class KernelWait {
 public:
  explicit KernelWait(Deadline deadline = Deadline()) : deadline_(deadline) {}

  bool is_over() const { return deadline_.has_passed(); }
  // It is over, and meanwhile launches were revoked.
  bool machine_is_too_busy() const { return is_over() && some_were_called_off(); }
  bool some_were_called_off() const { return called_off_so_far() > called_off_before_; }
  // Returns when the library has counted one; or fails the test.
  void want_one_called_off() const {
    while (!some_were_called_off() && !is_over()) ::usleep(1000);  // between two looks at the counter
    EXPECT_TRUE(some_were_called_off()) << "no kernel was revoked";
  }
  // Skips the test, or fails it where the machine is no excuse. One that has failed before stays failed.
  void give_up(const char* missing) const {
    if (machine_is_too_busy()) GTEST_SKIP() << kTooBusyForKernels;
    FAIL() << missing;
  }

 private:
  static std::uint64_t called_off_so_far() {
    sluice_carrier_counts_t counts{};
    auto* const ask = entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters");
    if (ask != nullptr) ask(&counts);
    return counts.kernel_called_off;
  }

  Deadline deadline_;
  std::uint64_t called_off_before_ = called_off_so_far();
};

}  // namespace sluice::support
