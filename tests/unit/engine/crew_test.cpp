#include "engine/crew.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

using std::chrono::microseconds;

constexpr microseconds whole(400);

void learn(Crew& crew, microseconds waited, unsigned times) {
  for (unsigned i = 0; i < times; ++i) crew.learn(waited, whole);
}

TEST(Crew, IsTheUsualOneBeforeAnythingIsKnown) {
  EXPECT_EQ(Crew().beyond_usual(), 0U);
}

TEST(Crew, GrowsByOneWhereNoneOfSeveralRequestsWaitsForTheDevice) {
  Crew crew;
  for (unsigned expected = 1; expected <= Crew::most_beyond; ++expected) {
    learn(crew, microseconds(0), Crew::telling - 1);
    EXPECT_EQ(crew.beyond_usual(), expected - 1);
    learn(crew, microseconds(0), 1);
    EXPECT_EQ(crew.beyond_usual(), expected);
  }
  learn(crew, microseconds(0), Crew::telling);
  EXPECT_EQ(crew.beyond_usual(), Crew::most_beyond);
}

TEST(Crew, DoesNotGrowWhereOneOfThemWaits) {
  Crew crew;
  for (int i = 0; i < 10; ++i) {
    learn(crew, microseconds(0), Crew::telling - 1);
    learn(crew, microseconds(10), 1);
  }
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

TEST(Crew, ShrinksToTheUsualOneWhereItWaitsForTheDevice) {
  Crew crew;
  learn(crew, microseconds(0), 2 * Crew::telling);
  learn(crew, microseconds(40), 1);
  EXPECT_EQ(crew.beyond_usual(), 1U);
  learn(crew, microseconds(40), 3);
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

TEST(Crew, StaysWhereItWaitsALittle) {
  Crew crew;
  learn(crew, microseconds(0), Crew::telling);
  learn(crew, microseconds(10), 10);
  EXPECT_EQ(crew.beyond_usual(), 1U);
}

}  // namespace
}  // namespace sluice::engine
