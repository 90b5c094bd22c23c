#include "engine/crew.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t bytes = 16 << 20;
constexpr microseconds usual(400);

// Requests that wait so long, and take as long as `whole` says for the hands that they have.
template <typename Whole>
void learn(Crew& crew, microseconds waited, unsigned requests, const Whole& whole) {
  for (unsigned i = 0; i < requests; ++i) crew.learn(waited, whole(crew.beyond_usual()), bytes);
}

microseconds whatever_hands(unsigned /*beyond*/) {
  return usual;
}
// As eight hands and so many more.
microseconds shared_by(unsigned beyond) {
  return usual * 8 / (8 + beyond);
}

TEST(Crew, IsTheUsualOneBeforeAnythingIsKnown) {
  EXPECT_EQ(Crew().beyond_usual(), 0U);
}

TEST(Crew, GrowsWhereEachHandMakesRequestsQuickerAndNoneWaitsForTheDevice) {
  Crew crew;
  for (unsigned expected = 1; expected <= Crew::most_beyond; ++expected) {
    learn(crew, microseconds(0), Crew::telling - 1, shared_by);
    EXPECT_EQ(crew.beyond_usual(), expected - 1);
    learn(crew, microseconds(0), 1, shared_by);
    EXPECT_EQ(crew.beyond_usual(), expected);
    learn(crew, microseconds(0), Crew::telling, shared_by);  // on trial
    EXPECT_EQ(crew.beyond_usual(), expected);
  }
  learn(crew, microseconds(0), 4 * Crew::telling, shared_by);
  EXPECT_EQ(crew.beyond_usual(), Crew::most_beyond);
}

TEST(Crew, SendsAwayAHandThatMakesNothingQuicker) {
  Crew crew;
  learn(crew, microseconds(0), Crew::telling, whatever_hands);
  EXPECT_EQ(crew.beyond_usual(), 1U);
  learn(crew, microseconds(0), Crew::telling, whatever_hands);
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

TEST(Crew, TriesSuchAHandLessAndLessOften) {
  Crew crew;
  unsigned with_one_more = 0;
  constexpr unsigned requests = 100 * Crew::telling;
  for (unsigned i = 0; i < requests; ++i) {
    learn(crew, microseconds(0), 1, whatever_hands);
    with_one_more += crew.beyond_usual();
  }
  EXPECT_GE(with_one_more, 3 * Crew::telling);
  EXPECT_LE(with_one_more, 5 * Crew::telling);
}

TEST(Crew, TriesLessOftenWhereTheHandOnTrialWaitsForLong) {
  Crew crew;
  unsigned with_one_more = 0;
  for (unsigned i = 0; i < 100 * Crew::telling; ++i) {
    learn(crew, crew.beyond_usual() > 0 ? microseconds(40) : microseconds(0), 1, whatever_hands);
    with_one_more += crew.beyond_usual();
  }
  EXPECT_GE(with_one_more, 3U);
  EXPECT_LE(with_one_more, 6U);
}

TEST(Crew, IsNotMisledByOneQuickRequestAmongSlowOnesBefore) {
  Crew crew;
  const auto one_quick = [count = 0U](unsigned) mutable { return count++ == 3 ? usual * 3 / 4 : usual; };
  auto whole = one_quick;
  for (unsigned i = 0; i < Crew::telling; ++i) crew.learn(microseconds(0), whole(0), bytes);
  EXPECT_EQ(crew.beyond_usual(), 1U);
  learn(crew, microseconds(0), Crew::telling, shared_by);  // quicker than most before, and not than the quickest
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

TEST(Crew, ComparesRequestsOfDifferentSizesByTheByte) {
  Crew crew;
  for (unsigned i = 0; i < Crew::telling; ++i) crew.learn(microseconds(0), usual, bytes);
  ASSERT_EQ(crew.beyond_usual(), 1U);
  for (unsigned i = 0; i < Crew::telling; ++i) crew.learn(microseconds(0), usual * 4 * 8 / 9, 4 * bytes);
  EXPECT_EQ(crew.beyond_usual(), 1U);
}

TEST(Crew, DoesNotGrowWhereManyRequestsWaitALittle) {
  Crew crew;
  for (int i = 0; i < 100; ++i) {
    learn(crew, microseconds(0), 1, shared_by);
    learn(crew, microseconds(10), 1, shared_by);
  }
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

TEST(Crew, ShrinksAtOnceWhereARequestWaitsForLong) {
  Crew crew;
  learn(crew, microseconds(0), 4 * Crew::telling, shared_by);
  ASSERT_EQ(crew.beyond_usual(), 2U);
  learn(crew, microseconds(40), 1, shared_by);
  EXPECT_EQ(crew.beyond_usual(), 1U);
  learn(crew, microseconds(40), 3, shared_by);
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

TEST(Crew, ShrinksInTimeWhereRequestsWaitALittle) {
  Crew crew;
  learn(crew, microseconds(0), 4 * Crew::telling, shared_by);
  ASSERT_EQ(crew.beyond_usual(), 2U);
  learn(crew, microseconds(10), Crew::telling, shared_by);
  EXPECT_EQ(crew.beyond_usual(), 1U);
  learn(crew, microseconds(10), 3 * Crew::telling, shared_by);
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

}  // namespace
}  // namespace sluice::engine
