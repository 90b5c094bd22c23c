// SPDX-License-Identifier: Apache-2.0
#include "base/cooldown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace sluice::base {
namespace {

constexpr std::uint32_t longest = 64;

std::uint32_t requests_until_over(Cooldown& cooldown) {
  std::uint32_t requests = 0;
  while (!cooldown.is_over()) ++requests;
  return requests;
}

TEST(Cooldown, IsOverBeforeAnythingHappened) {
  Cooldown cooldown;
  EXPECT_TRUE(cooldown.is_over());
}

TEST(Cooldown, LastsForSoManyRequests) {
  Cooldown cooldown;
  cooldown.begin(longest);
  EXPECT_EQ(requests_until_over(cooldown), Cooldown::shortest);
  EXPECT_TRUE(cooldown.is_over());
}

TEST(Cooldown, IsShorterWhereARequestIsWorthSeveral) {
  Cooldown cooldown;
  cooldown.begin(longest);
  EXPECT_FALSE(cooldown.is_over(Cooldown::shortest - 1));
  EXPECT_FALSE(cooldown.is_over(1000));
  EXPECT_TRUE(cooldown.is_over(1000));
}

TEST(Cooldown, LastsTwiceAsLongEachTimeInARow) {
  Cooldown cooldown;
  for (const std::uint32_t expected : {8U, 16U, 32U, 64U, 64U}) {
    cooldown.begin(longest);
    EXPECT_EQ(requests_until_over(cooldown), expected);
  }
}

TEST(Cooldown, IsShortAgainAfterSomethingWentWell) {
  Cooldown cooldown;
  cooldown.begin(longest);
  cooldown.begin(longest);
  EXPECT_EQ(requests_until_over(cooldown), 2 * Cooldown::shortest);
  cooldown.forget();
  cooldown.begin(longest);
  EXPECT_EQ(requests_until_over(cooldown), Cooldown::shortest);
}

TEST(Cooldown, GoesOnWhereSomethingElseWentWellMeanwhile) {
  Cooldown cooldown;
  cooldown.begin(longest);
  cooldown.forget();
  EXPECT_EQ(requests_until_over(cooldown), Cooldown::shortest);
}

TEST(TimedCooldown, IsTwiceAsLongEachTimeUpToALimit) {
  const TimedCooldown::Clock::time_point start{};
  TimedCooldown cooldown;
  EXPECT_FALSE(cooldown.was_needed());
  for (auto length = TimedCooldown::shortest; length <= 4 * TimedCooldown::longest; length *= 2) {
    cooldown.begin(start);
    EXPECT_TRUE(cooldown.was_needed());
    const auto expected = std::min(length, TimedCooldown::longest);
    EXPECT_FALSE(cooldown.is_over(start + expected - std::chrono::nanoseconds(1))) << length.count();
    EXPECT_TRUE(cooldown.is_over(start + expected)) << length.count();
  }
}

TEST(TimedCooldown, IsShortAgainOnceItWentWell) {
  const TimedCooldown::Clock::time_point start{};
  TimedCooldown cooldown;
  for (int i = 0; i < 4; ++i) cooldown.begin(start);
  cooldown.forget();
  EXPECT_FALSE(cooldown.was_needed());
  cooldown.begin(start);
  EXPECT_TRUE(cooldown.is_over(start + TimedCooldown::shortest));
}

}  // namespace
}  // namespace sluice::base
