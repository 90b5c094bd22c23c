// SPDX-License-Identifier: Apache-2.0
// Who waits this way gives its processor away, whatever else wants it.
#include "base/backoff.h"

#include <gtest/gtest.h>

#include "base/times_asleep.h"

namespace sluice::base {
namespace {

TEST(Backoff, LooksSomeTimesAndThenSleeps) {
  Backoff backoff;
  const long before = times_asleep();
  for (int look = 0; look < 220; ++look) backoff.wait();
  EXPECT_GE(times_asleep() - before, 15);
}

}  // namespace
}  // namespace sluice::base
