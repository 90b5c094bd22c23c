#include "workers/crew.h"

#include <gtest/gtest.h>

namespace sluice::workers {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t bytes = 16 << 20;
constexpr microseconds usual(400);

// Requests that take as long as `whole` says for the hands that they have.
template <typename Whole>
void learn(Crew& crew, unsigned requests, const Whole& whole) {
  for (unsigned i = 0; i < requests; ++i) crew.learn(whole(crew.beyond_usual()), bytes, true);
}

microseconds whatever_hands(unsigned /*beyond*/) {
  return usual;
}
// As eight hands and so many more.
microseconds shared_by(unsigned beyond) {
  return usual * 8 / (8 + beyond);
}
// The first one beyond brings what the others bring, the second one a fourth of it.
microseconds bound_soon(unsigned beyond) {
  if (beyond == 0) return usual;
  return beyond == 1 ? usual * 8 / 9 : usual * 8 / 9 * 35 / 36;
}

Crew grown() {
  Crew crew;
  learn(crew, (Crew::most_beyond + 1) * Crew::telling, shared_by);
  return crew;
}

TEST(Crew, IsTheUsualOneBeforeAnythingIsKnown) {
  EXPECT_EQ(Crew().beyond_usual(), 0U);
}

TEST(Crew, GrowsWhereEachHandMakesRequestsQuicker) {
  Crew crew;
  for (unsigned expected = 1; expected <= Crew::most_beyond; ++expected) {
    learn(crew, Crew::telling - 1, shared_by);
    EXPECT_EQ(crew.beyond_usual(), expected - 1);
    learn(crew, 1, shared_by);
    EXPECT_EQ(crew.beyond_usual(), expected);
  }
}

TEST(Crew, MissesAHandThatIsOfUseWhenItTriesWithOneLessAndHasItBack) {
  Crew crew = grown();
  unsigned with_all = 0;
  unsigned with_one_less = 0;
  constexpr unsigned requests = 1000 * Crew::telling;
  for (unsigned i = 0; i < requests; ++i) {
    learn(crew, 1, shared_by);
    with_all += crew.beyond_usual() == Crew::most_beyond ? 1 : 0;
    with_one_less += crew.beyond_usual() == Crew::most_beyond - 1 ? 1 : 0;
  }
  EXPECT_EQ(with_all + with_one_less, requests);
  EXPECT_GE(with_one_less, 4 * Crew::telling);
  EXPECT_LE(with_one_less, 8 * Crew::telling);
}

TEST(Crew, HasAHandBackThatADisturbedMomentSentAway) {
  Crew crew;
  // The second hand beyond has been tried again and again in vain.
  const auto one_is_of_use = [](unsigned beyond) { return beyond == 0 ? usual : usual * 8 / 9; };
  learn(crew, 1000 * Crew::telling, one_is_of_use);
  const auto disturbed = [](unsigned beyond) { return beyond == 0 ? usual : usual * 5 / 4; };
  for (unsigned i = 0; i < 200 * Crew::telling && crew.beyond_usual() > 0; ++i) learn(crew, 1, disturbed);
  learn(crew, Crew::telling, disturbed);
  ASSERT_EQ(crew.beyond_usual(), 0U) << "not missed, as it seems";
  learn(crew, 2 * Crew::telling, one_is_of_use);
  EXPECT_EQ(crew.beyond_usual(), 2U) << "the first one was worth it, the second is on trial";
}

TEST(Crew, SendsAwayAHandThatMakesNothingQuicker) {
  Crew crew;
  learn(crew, Crew::telling, whatever_hands);
  EXPECT_EQ(crew.beyond_usual(), 1U);
  learn(crew, Crew::telling, whatever_hands);
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

TEST(Crew, SendsAwayAHandThatMostlyWaits) {
  Crew crew;
  learn(crew, 2 * Crew::telling, bound_soon);
  EXPECT_EQ(crew.beyond_usual(), 2U);
  learn(crew, Crew::telling, bound_soon);
  EXPECT_EQ(crew.beyond_usual(), 1U);
}

TEST(Crew, TriesLessAndLessOften) {
  Crew crew;
  unsigned with_one_more = 0;
  constexpr unsigned requests = 1000 * Crew::telling;
  for (unsigned i = 0; i < requests; ++i) {
    learn(crew, 1, whatever_hands);
    with_one_more += crew.beyond_usual();
  }
  EXPECT_GE(with_one_more, 8 * Crew::telling);
  EXPECT_LE(with_one_more, 14 * Crew::telling);
}

TEST(Crew, TriesNoneMoreWhereThereIsNone) {
  Crew crew;
  for (unsigned i = 0; i < Crew::telling; ++i) crew.learn(usual, bytes, false);
  EXPECT_EQ(crew.beyond_usual(), 0U);
  learn(crew, Crew::telling, shared_by);
  EXPECT_EQ(crew.beyond_usual(), 1U);
  for (unsigned i = 0; i < Crew::telling; ++i) crew.learn(shared_by(1), bytes, false);
  EXPECT_EQ(crew.beyond_usual(), 1U) << "it was worth it, and was the last one";
}

TEST(Crew, IsNotMisledByRequestsThatWereDisturbed) {
  Crew crew;
  for (unsigned i = 0; i < Crew::telling; ++i) crew.learn(i == 3 ? usual : usual * 3 / 2, bytes, true);
  ASSERT_EQ(crew.beyond_usual(), 1U);
  learn(crew, Crew::telling, whatever_hands);  // quicker than most before, and not than the one that nobody disturbed
  EXPECT_EQ(crew.beyond_usual(), 0U);
  learn(crew, Crew::telling, shared_by);
  ASSERT_EQ(crew.beyond_usual(), 1U);
  for (unsigned i = 0; i < Crew::telling; ++i) crew.learn(i == 3 ? usual * 8 / 9 : usual * 3 / 2, bytes, true);
  EXPECT_EQ(crew.beyond_usual(), 2U) << "the first one was worth it, the second is on trial";
}

TEST(Crew, ComparesRequestsOfDifferentSizesByTheByte) {
  Crew crew;
  for (unsigned i = 0; i < Crew::telling; ++i) crew.learn(usual, bytes, true);
  for (unsigned i = 0; i < Crew::telling; ++i) crew.learn(usual * 2 * 8 / 9, 2 * bytes, true);
  learn(crew, Crew::telling - 1, shared_by);
  EXPECT_EQ(crew.beyond_usual(), 2U) << "the first one was worth it, the second is on trial";
}

TEST(Crew, KnowsFromFewerRequestsWhereTheyAreLong) {
  Crew crew;
  for (unsigned i = 1; i < Crew::telling_of_long; ++i) crew.learn(usual, Crew::telling_bytes, true);
  EXPECT_EQ(crew.beyond_usual(), 0U) << "one of fewer may be the only one, and disturbed";
  crew.learn(usual, Crew::telling_bytes, true);
  EXPECT_EQ(crew.beyond_usual(), 1U);
}

TEST(Crew, ShrinksWhereHandsAreNotMissedAnyMore) {
  Crew crew = grown();
  ASSERT_EQ(crew.beyond_usual(), Crew::most_beyond);
  // It has just been seen that each is of use: the next trial is some time off, those after it follow at once.
  learn(crew, (Crew::longest_pause + Crew::most_beyond + 2) * Crew::telling, whatever_hands);
  EXPECT_EQ(crew.beyond_usual(), 0U);
}

TEST(Crew, GrowsAgainAfterALongTimeInVain) {
  Crew crew;
  learn(crew, 10 * Crew::longest_pause * Crew::telling, whatever_hands);
  learn(crew, (Crew::longest_pause + Crew::most_beyond + 2) * Crew::telling, shared_by);
  EXPECT_GE(crew.beyond_usual(), Crew::most_beyond - 1) << "one may be away on trial";
}

TEST(Crews, HasOneForEachRangeOfLengths) {
  Crews crews;
  for (const std::uint64_t length : {32ULL << 20, 128ULL << 20}) {
    Crew& crew = crews.of_requests_of(length);
    for (unsigned i = 0; i < Crew::telling && crew.beyond_usual() == 0; ++i) crew.learn(usual, length, true);
    EXPECT_EQ(crew.beyond_usual(), 1U) << length;
    EXPECT_EQ(crews.of_requests_of(length + 1).beyond_usual(), 0U) << length;
  }
}

}  // namespace
}  // namespace sluice::workers
