#include "base/rest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace sluice::base {
namespace {

constexpr std::uint32_t longest = 64;

std::uint32_t requests_until_over(Rest& rest) {
  std::uint32_t requests = 0;
  while (!rest.is_over()) ++requests;
  return requests;
}

TEST(Rest, IsOverBeforeAnythingHappened) {
  Rest rest;
  EXPECT_TRUE(rest.is_over());
}

TEST(Rest, LastsForSoManyRequests) {
  Rest rest;
  rest.begin(longest);
  EXPECT_EQ(requests_until_over(rest), Rest::shortest);
  EXPECT_TRUE(rest.is_over());
}

TEST(Rest, IsShorterWhereARequestIsWorthSeveral) {
  Rest rest;
  rest.begin(longest);
  EXPECT_FALSE(rest.is_over(Rest::shortest - 1));
  EXPECT_FALSE(rest.is_over(1000));
  EXPECT_TRUE(rest.is_over(1000));
}

TEST(Rest, LastsTwiceAsLongEachTimeInARow) {
  Rest rest;
  for (const std::uint32_t expected : {8U, 16U, 32U, 64U, 64U}) {
    rest.begin(longest);
    EXPECT_EQ(requests_until_over(rest), expected);
  }
}

TEST(Rest, IsShortAgainAfterSomethingWentWell) {
  Rest rest;
  rest.begin(longest);
  rest.begin(longest);
  EXPECT_EQ(requests_until_over(rest), 2 * Rest::shortest);
  rest.forget();
  rest.begin(longest);
  EXPECT_EQ(requests_until_over(rest), Rest::shortest);
}

TEST(Rest, GoesOnWhereSomethingElseWentWellMeanwhile) {
  Rest rest;
  rest.begin(longest);
  rest.forget();
  EXPECT_EQ(requests_until_over(rest), Rest::shortest);
}

TEST(TimedRest, IsTwiceAsLongEachTimeUpToALimit) {
  const TimedRest::Clock::time_point start{};
  TimedRest rest;
  EXPECT_FALSE(rest.was_needed());
  for (auto length = TimedRest::shortest; length <= 4 * TimedRest::longest; length *= 2) {
    rest.begin(start);
    EXPECT_TRUE(rest.was_needed());
    const auto expected = std::min(length, TimedRest::longest);
    EXPECT_FALSE(rest.is_over(start + expected - std::chrono::nanoseconds(1))) << length.count();
    EXPECT_TRUE(rest.is_over(start + expected)) << length.count();
  }
}

TEST(TimedRest, IsShortAgainOnceItWentWell) {
  const TimedRest::Clock::time_point start{};
  TimedRest rest;
  for (int i = 0; i < 4; ++i) rest.begin(start);
  rest.forget();
  EXPECT_FALSE(rest.was_needed());
  rest.begin(start);
  EXPECT_TRUE(rest.is_over(start + TimedRest::shortest));
}

}  // namespace
}  // namespace sluice::base
