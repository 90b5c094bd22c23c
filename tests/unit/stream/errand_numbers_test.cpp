// What launches of the errand kernel tell of themselves, by numbers that go on from launch to launch.
#include <gtest/gtest.h>

#include "gpu/errand.h"

namespace sluice::gpu {
namespace {

TEST(ErrandNumbers, TheWordsTellOfNoLaunchBeforeTheFirst) {
  EXPECT_FALSE(is_told_of(first_errand - 1, first_errand));
  EXPECT_FALSE(is_told_of(carrying(first_errand) - 1, carrying(first_errand)));
}

TEST(ErrandNumbers, BeginAnewBetweenTwoLaunchesBeforeTheyWouldComeRound) {
  EXPECT_EQ(following_launch(first_errand), first_errand);
  EXPECT_EQ(following_launch(end_of_errands - 1), end_of_errands - 1);
  EXPECT_EQ(following_launch(end_of_errands), 0x100U);
  EXPECT_EQ(following_launch(0xffffffffU), 0x1ffU);
  EXPECT_EQ(following_launch(following_launch(0xf0000077U)), 0x177U);
}

TEST(ErrandNumbers, ThatBeginAnewAreNotTakenForThoseThatTheirSlotsHad) {
  for (const std::uint32_t next : {end_of_errands, end_of_errands + 33, end_of_errands + 255}) {
    const std::uint32_t anew = following_launch(next);
    EXPECT_EQ(anew % errand_places, next % errand_places);
    const std::uint32_t before = next - errand_places;  // the last one of the slot
    const ErrandCommand stale{.number = before};
    const ErrandCommand fresh{.number = anew};
    EXPECT_NE(fresh.first_word(), stale.first_word());
    EXPECT_NE(fresh.second_word(), stale.second_word());
  }
}

// However far the last launch before has come.
TEST(ErrandNumbers, TellOfALaunchThatBeganAnewAsOfALaterOne) {
  for (const std::uint32_t last : {first_errand, end_of_errands - 1, end_of_errands + (1U << 28U)}) {
    const std::uint32_t anew = following_launch(end_of_errands);
    EXPECT_TRUE(is_told_of(anew, last));
    EXPECT_FALSE(is_told_of(last, anew));
    EXPECT_TRUE(is_told_of(carrying(anew), carrying(last)));
    EXPECT_FALSE(is_told_of(taken_back(last), carrying(anew)));
  }
}

TEST(ErrandNumbers, AWordTellsOfItsLaunchAndOfThoseBefore) {
  EXPECT_FALSE(is_told_of(99, 100));
  EXPECT_TRUE(is_told_of(100, 100));
  EXPECT_TRUE(is_told_of(102, 100));
}

TEST(ErrandNumbers, TheyGoOnBeyondTheMiddleAndTheEndOfTheirRange) {
  EXPECT_TRUE(is_told_of(0x80000001U, 0x7fffffffU));
  EXPECT_FALSE(is_told_of(0x7fffffffU, 0x80000001U));
  EXPECT_TRUE(is_told_of(2, 0xfffffffeU));
  EXPECT_FALSE(is_told_of(0xfffffffeU, 2));
}

TEST(ErrandNumbers, AVerdictIsOfOneLaunchAlone) {
  for (const std::uint32_t number : {first_errand, 0x40000000U, 0x7fffffffU, 0x80000000U, 0xf0000000U}) {
    EXPECT_NE(carrying(number), taken_back(number));
    EXPECT_NE(taken_back(number), taken_back(number - 2));
    EXPECT_TRUE(is_told_of(carrying(number), carrying(number)));
    EXPECT_TRUE(is_told_of(taken_back(number), carrying(number)));
    EXPECT_FALSE(is_told_of(taken_back(number - 2), carrying(number)));
    EXPECT_TRUE(is_told_of(carrying(number + 2), carrying(number)));
  }
}

}  // namespace
}  // namespace sluice::gpu
