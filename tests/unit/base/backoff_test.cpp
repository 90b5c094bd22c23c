// SPDX-License-Identifier: Apache-2.0
// Who waits this way gives its processor away, whatever else wants it.
#include "base/backoff.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace sluice::base {
namespace {

long times_asleep() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

TEST(Backoff, LooksSomeTimesAndThenSleeps) {
  Backoff backoff;
  const long before = times_asleep();
  for (int look = 0; look < 220; ++look) backoff.wait();
  EXPECT_GE(times_asleep() - before, 15);
}

}  // namespace
}  // namespace sluice::base
