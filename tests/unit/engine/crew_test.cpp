#include "engine/crew.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

using std::chrono::microseconds;

TEST(Crew, IsTheUsualOneBeforeAnythingIsKnown) {
  EXPECT_EQ(Crew().beyond_usual(), 0U);
}

TEST(Crew, GrowsByOneARequestWhileNobodyWaitsForTheDevice) {
  Crew crew;
  for (unsigned expected = 1; expected <= Crew::most_beyond; ++expected) {
    crew.learn(microseconds(0), microseconds(400));
    EXPECT_EQ(crew.beyond_usual(), expected);
  }
  crew.learn(microseconds(0), microseconds(400));
  EXPECT_EQ(crew.beyond_usual(), Crew::most_beyond);
}

TEST(Crew, ShrinksToTheUsualOneWhereItWaitsForTheDevice) {
  Crew crew;
  crew.learn(microseconds(0), microseconds(400));
  crew.learn(microseconds(0), microseconds(400));
  crew.learn(microseconds(200), microseconds(400));
  EXPECT_EQ(crew.beyond_usual(), 1U);
  for (int i = 0; i < 3; ++i) crew.learn(microseconds(200), microseconds(400));
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

TEST(Crew, StaysWhereItWaitsALittle) {
  Crew crew;
  crew.learn(microseconds(0), microseconds(400));
  for (int i = 0; i < 10; ++i) crew.learn(microseconds(10), microseconds(400));
  EXPECT_EQ(crew.beyond_usual(), 1U);
}

TEST(Crew, ShrinksWhereItWaitsForATenthOfTheTime) {
  Crew crew;
  crew.learn(microseconds(0), microseconds(400));
  crew.learn(microseconds(40), microseconds(400));
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

}  // namespace
}  // namespace sluice::engine
