// SPDX-License-Identifier: Apache-2.0
#include "base/spin_backoff.h"

#include <gtest/gtest.h>

#include "base/times_asleep.h"

namespace sluice::base {
namespace {

// A crowd of waiting threads gives its turns away, and is then awake for a while before it sleeps, as one that spins.
TEST(SpinBackoff, DoesNotSleepAtOnceWhereItHasYielded) {
  SpinBackoff backoff(std::chrono::seconds(60));
  for (int look = 0; look < 250; ++look) backoff.wait(WaitMode::yield);
  const long before = times_asleep();
  for (int look = 0; look < 20; ++look) backoff.wait(WaitMode::yield);
  EXPECT_EQ(times_asleep(), before);
}

// Whatever it did before: so a lost device is asked for its health in the end.
TEST(SpinBackoff, IsLongSinceNowAndThenWhereItSleeps) {
  for (const int spins : {0, 1, 5, 63}) {
    SpinBackoff backoff;
    for (int look = 0; look < spins; ++look) backoff.wait();
    int said = 0;
    for (int look = 0; look < 200; ++look) {
      backoff.wait(WaitMode::sleep);
      said += backoff.long_since() ? 1 : 0;
    }
    EXPECT_GT(said, 0) << "behind " << spins;
  }
}

}  // namespace
}  // namespace sluice::base
