// SPDX-License-Identifier: Apache-2.0
// What launches of the stream copy kernel tell of themselves, by numbers that go on from launch to launch.
#include <gtest/gtest.h>

#include "gpu/stream_copy.h"

namespace sluice::gpu {
namespace {

TEST(StreamCopyNumbers, TheWordsTellOfNoLaunchBeforeTheFirst) {
  EXPECT_FALSE(has_reached(first_stream_copy - 1, first_stream_copy));
  EXPECT_FALSE(has_reached(committed_launch(first_stream_copy) - 1, committed_launch(first_stream_copy)));
}

TEST(StreamCopyNumbers, BeginAnewBetweenTwoLaunchesBeforeTheyWouldComeRound) {
  EXPECT_EQ(following_launch(first_stream_copy), first_stream_copy);
  EXPECT_EQ(following_launch(end_of_numbers - 1), end_of_numbers - 1);
  EXPECT_EQ(following_launch(end_of_numbers), 0x100U);
  EXPECT_EQ(following_launch(0xffffffffU), 0x1ffU);
  EXPECT_EQ(following_launch(following_launch(0xf0000077U)), 0x177U);
}

TEST(StreamCopyNumbers, ThatBeginAnewAreNotTakenForThoseThatTheirSlotsHad) {
  for (const std::uint32_t next : {end_of_numbers, end_of_numbers + 33, end_of_numbers + 255}) {
    const std::uint32_t anew = following_launch(next);
    EXPECT_EQ(anew % stream_copy_slots, next % stream_copy_slots);
    const std::uint32_t before = next - stream_copy_slots;  // the last one of the slot
    StreamCopyCommand stale{};
    stale.number = before;
    StreamCopyCommand fresh{};
    fresh.number = anew;
    EXPECT_NE(fresh.first_word(), stale.first_word());
    EXPECT_NE(fresh.second_word(), stale.second_word());
  }
}

// However far the last launch before has come.
TEST(StreamCopyNumbers, TellOfALaunchThatBeganAnewAsOfALaterOne) {
  for (const std::uint32_t last : {first_stream_copy, end_of_numbers - 1, end_of_numbers + (1U << 28U)}) {
    const std::uint32_t anew = following_launch(end_of_numbers);
    EXPECT_TRUE(has_reached(anew, last));
    EXPECT_FALSE(has_reached(last, anew));
    EXPECT_TRUE(has_reached(committed_launch(anew), committed_launch(last)));
    EXPECT_FALSE(has_reached(revoked_launch(last), committed_launch(anew)));
  }
}

TEST(StreamCopyNumbers, AWordTellsOfItsLaunchAndOfThoseBefore) {
  EXPECT_FALSE(has_reached(99, 100));
  EXPECT_TRUE(has_reached(100, 100));
  EXPECT_TRUE(has_reached(102, 100));
}

TEST(StreamCopyNumbers, TheyGoOnBeyondTheMiddleAndTheEndOfTheirRange) {
  EXPECT_TRUE(has_reached(0x80000001U, 0x7fffffffU));
  EXPECT_FALSE(has_reached(0x7fffffffU, 0x80000001U));
  EXPECT_TRUE(has_reached(2, 0xfffffffeU));
  EXPECT_FALSE(has_reached(0xfffffffeU, 2));
}

TEST(StreamCopyNumbers, ACommitIsOfOneLaunchAlone) {
  for (const std::uint32_t number : {first_stream_copy, 0x40000000U, 0x7fffffffU, 0x80000000U, 0xf0000000U}) {
    EXPECT_NE(committed_launch(number), revoked_launch(number));
    EXPECT_NE(revoked_launch(number), revoked_launch(number - 2));
    EXPECT_TRUE(has_reached(committed_launch(number), committed_launch(number)));
    EXPECT_TRUE(has_reached(revoked_launch(number), committed_launch(number)));
    EXPECT_FALSE(has_reached(revoked_launch(number - 2), committed_launch(number)));
    EXPECT_TRUE(has_reached(committed_launch(number + 2), committed_launch(number)));
  }
}

}  // namespace
}  // namespace sluice::gpu
