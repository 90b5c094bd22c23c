// SPDX-License-Identifier: Apache-2.0
// When a transfer took so long that the log tells of it.
#include "request/slow_log.h"

#include <gtest/gtest.h>

namespace sluice::request {
namespace {

TEST(Late, IsASmallTransferOfMoreThanASecond) {
  EXPECT_FALSE(is_slow(4096, 0));
  EXPECT_FALSE(is_slow(4096, 1000));
  EXPECT_TRUE(is_slow(4096, 1100));
}

TEST(Late, IsNotALargeTransferThatTakesItsTime) {
  constexpr std::uint64_t kBytes = std::uint64_t{16} << 30U;
  EXPECT_FALSE(is_slow(kBytes, 20'000));
  EXPECT_TRUE(is_slow(kBytes, 600'000));
  EXPECT_FALSE(is_slow(~std::uint64_t{0}, 600'000));
}

TEST(Late, IsNothingByAClockThatStandsStill) {
  EXPECT_FALSE(is_slow(0, 0));
  EXPECT_FALSE(is_slow(0, -5));
}

}  // namespace
}  // namespace sluice::request
