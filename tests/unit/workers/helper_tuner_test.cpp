// SPDX-License-Identifier: Apache-2.0
#include "workers/helper_tuner.h"

#include <gtest/gtest.h>

namespace sluice::workers {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t bytes = 16 << 20;
constexpr microseconds usual(400);

// Requests that take as long as `whole` says for the hands that they have.
template <typename Whole>
void learn(HelperTuner& tuner, unsigned requests, const Whole& whole) {
  for (unsigned i = 0; i < requests; ++i) tuner.learn(whole(tuner.extra_helpers()), bytes, true);
}

microseconds whatever_helpers(unsigned /*beyond*/) {
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

HelperTuner grown() {
  HelperTuner tuner;
  learn(tuner, (HelperTuner::most_extra + 1) * HelperTuner::sample_size, shared_by);
  return tuner;
}

TEST(HelperTuner, IsTheUsualOneBeforeAnythingIsKnown) {
  EXPECT_EQ(HelperTuner().extra_helpers(), 0U);
}

TEST(HelperTuner, GrowsWhereEachHelperMakesRequestsQuicker) {
  HelperTuner tuner;
  for (unsigned expected = 1; expected <= HelperTuner::most_extra; ++expected) {
    learn(tuner, HelperTuner::sample_size - 1, shared_by);
    EXPECT_EQ(tuner.extra_helpers(), expected - 1);
    learn(tuner, 1, shared_by);
    EXPECT_EQ(tuner.extra_helpers(), expected);
  }
}

TEST(HelperTuner, MissesAHelperThatIsOfUseWhenItTriesWithOneLessAndHasItBack) {
  HelperTuner tuner = grown();
  unsigned with_all = 0;
  unsigned with_one_less = 0;
  constexpr unsigned requests = 1000 * HelperTuner::sample_size;
  for (unsigned i = 0; i < requests; ++i) {
    learn(tuner, 1, shared_by);
    with_all += tuner.extra_helpers() == HelperTuner::most_extra ? 1 : 0;
    with_one_less += tuner.extra_helpers() == HelperTuner::most_extra - 1 ? 1 : 0;
  }
  EXPECT_EQ(with_all + with_one_less, requests);
  EXPECT_GE(with_one_less, 4 * HelperTuner::sample_size);
  EXPECT_LE(with_one_less, 8 * HelperTuner::sample_size);
}

TEST(HelperTuner, HasAHelperBackThatADisturbedMomentSentAway) {
  HelperTuner tuner;
  // The second hand beyond has been tried again and again in vain.
  const auto one_is_of_use = [](unsigned beyond) { return beyond == 0 ? usual : usual * 8 / 9; };
  learn(tuner, 1000 * HelperTuner::sample_size, one_is_of_use);
  const auto disturbed = [](unsigned beyond) { return beyond == 0 ? usual : usual * 5 / 4; };
  for (unsigned i = 0; i < 200 * HelperTuner::sample_size && tuner.extra_helpers() > 0; ++i) learn(tuner, 1, disturbed);
  learn(tuner, HelperTuner::sample_size, disturbed);
  ASSERT_EQ(tuner.extra_helpers(), 0U) << "not missed, as it seems";
  learn(tuner, 2 * HelperTuner::sample_size, one_is_of_use);
  EXPECT_EQ(tuner.extra_helpers(), 2U) << "the first one was worth it, the second is on trial";
}

TEST(HelperTuner, SendsAwayAHelperThatMakesNothingQuicker) {
  HelperTuner tuner;
  learn(tuner, HelperTuner::sample_size, whatever_helpers);
  EXPECT_EQ(tuner.extra_helpers(), 1U);
  learn(tuner, HelperTuner::sample_size, whatever_helpers);
  EXPECT_EQ(tuner.extra_helpers(), 0U);
}

TEST(HelperTuner, SendsAwayAHelperThatMostlyWaits) {
  HelperTuner tuner;
  learn(tuner, 2 * HelperTuner::sample_size, bound_soon);
  EXPECT_EQ(tuner.extra_helpers(), 2U);
  learn(tuner, HelperTuner::sample_size, bound_soon);
  EXPECT_EQ(tuner.extra_helpers(), 1U);
}

TEST(HelperTuner, TriesLessAndLessOften) {
  HelperTuner tuner;
  unsigned with_one_more = 0;
  constexpr unsigned requests = 1000 * HelperTuner::sample_size;
  for (unsigned i = 0; i < requests; ++i) {
    learn(tuner, 1, whatever_helpers);
    with_one_more += tuner.extra_helpers();
  }
  EXPECT_GE(with_one_more, 8 * HelperTuner::sample_size);
  EXPECT_LE(with_one_more, 14 * HelperTuner::sample_size);
}

TEST(HelperTuner, TriesNoneMoreWhereThereIsNone) {
  HelperTuner tuner;
  for (unsigned i = 0; i < HelperTuner::sample_size; ++i) tuner.learn(usual, bytes, false);
  EXPECT_EQ(tuner.extra_helpers(), 0U);
  learn(tuner, HelperTuner::sample_size, shared_by);
  EXPECT_EQ(tuner.extra_helpers(), 1U);
  for (unsigned i = 0; i < HelperTuner::sample_size; ++i) tuner.learn(shared_by(1), bytes, false);
  EXPECT_EQ(tuner.extra_helpers(), 1U) << "it was worth it, and was the last one";
}

TEST(HelperTuner, IsNotMisledByRequestsThatWereDisturbed) {
  HelperTuner tuner;
  for (unsigned i = 0; i < HelperTuner::sample_size; ++i) tuner.learn(i == 3 ? usual : usual * 3 / 2, bytes, true);
  ASSERT_EQ(tuner.extra_helpers(), 1U);
  learn(tuner, HelperTuner::sample_size,
        whatever_helpers);  // quicker than most before, and not than the one that was not disturbed
  EXPECT_EQ(tuner.extra_helpers(), 0U);
  learn(tuner, HelperTuner::sample_size, shared_by);
  ASSERT_EQ(tuner.extra_helpers(), 1U);
  for (unsigned i = 0; i < HelperTuner::sample_size; ++i)
    tuner.learn(i == 3 ? usual * 8 / 9 : usual * 3 / 2, bytes, true);
  EXPECT_EQ(tuner.extra_helpers(), 2U) << "the first one was worth it, the second is on trial";
}

TEST(HelperTuner, ComparesRequestsOfDifferentSizesByTheByte) {
  HelperTuner tuner;
  for (unsigned i = 0; i < HelperTuner::sample_size; ++i) tuner.learn(usual, bytes, true);
  for (unsigned i = 0; i < HelperTuner::sample_size; ++i) tuner.learn(usual * 2 * 8 / 9, 2 * bytes, true);
  learn(tuner, HelperTuner::sample_size - 1, shared_by);
  EXPECT_EQ(tuner.extra_helpers(), 2U) << "the first one was worth it, the second is on trial";
}

TEST(HelperTuner, KnowsFromFewerRequestsWhereTheyAreLong) {
  HelperTuner tuner;
  for (unsigned i = 1; i < HelperTuner::sample_size_of_long; ++i) tuner.learn(usual, HelperTuner::sample_bytes, true);
  EXPECT_EQ(tuner.extra_helpers(), 0U) << "one of fewer may be the only one, and disturbed";
  tuner.learn(usual, HelperTuner::sample_bytes, true);
  EXPECT_EQ(tuner.extra_helpers(), 1U);
}

TEST(HelperTuner, ShrinksWhereHelpersAreNotMissedAnyMore) {
  HelperTuner tuner = grown();
  ASSERT_EQ(tuner.extra_helpers(), HelperTuner::most_extra);
  // It has just been seen that each is of use: the next trial is some time off, those after it follow at once.
  learn(tuner, (HelperTuner::longest_pause + HelperTuner::most_extra + 2) * HelperTuner::sample_size, whatever_helpers);
  EXPECT_EQ(tuner.extra_helpers(), 0U);
}

TEST(HelperTuner, GrowsAgainAfterALongTimeInVain) {
  HelperTuner tuner;
  learn(tuner, 10 * HelperTuner::longest_pause * HelperTuner::sample_size, whatever_helpers);
  learn(tuner, (HelperTuner::longest_pause + HelperTuner::most_extra + 2) * HelperTuner::sample_size, shared_by);
  EXPECT_GE(tuner.extra_helpers(), HelperTuner::most_extra - 1) << "one may be away on trial";
}

TEST(HelperTuners, HasOneForEachRangeOfLengths) {
  HelperTuners tuners;
  for (const std::uint64_t length : {32ULL << 20, 128ULL << 20}) {
    HelperTuner& tuner = tuners.for_requests_of(length);
    for (unsigned i = 0; i < HelperTuner::sample_size && tuner.extra_helpers() == 0; ++i)
      tuner.learn(usual, length, true);
    EXPECT_EQ(tuner.extra_helpers(), 1U) << length;
    EXPECT_EQ(tuners.for_requests_of(length + 1).extra_helpers(), 0U) << length;
  }
}

}  // namespace
}  // namespace sluice::workers
