// What launches of the errand kernel tell of themselves, by numbers that go on from launch to launch.
#include <gtest/gtest.h>

#include "gpu/errand.h"

namespace sluice::gpu {
namespace {

TEST(ErrandNumbers, AWordThatWasNeverWrittenTellsOfNoLaunch) {
  EXPECT_FALSE(is_told_of(0, first_errand));
  EXPECT_FALSE(is_told_of(0, carrying(first_errand)));
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
