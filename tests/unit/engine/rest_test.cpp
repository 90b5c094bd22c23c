#include "engine/rest.h"

#include <gtest/gtest.h>

namespace sluice::engine {
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

}  // namespace
}  // namespace sluice::engine
