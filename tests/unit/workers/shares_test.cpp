// How many hands requests get, alone and in a crowd.
#include "workers/shares.h"

#include <gtest/gtest.h>

namespace sluice::workers {
namespace {

constexpr Workforce large{.processors = 16, .lanes = 11};

TEST(Shares, OneAloneMayHaveAllLanes) {
  EXPECT_EQ(11U, share_of_one(large, 1, 0));
  EXPECT_EQ(11U, share_of_one(large, 1, 11)) << "those at work may be about to leave";
}

TEST(Shares, FewDivideTheLanes) {
  EXPECT_EQ(5U, share_of_one(large, 2, 0));
  EXPECT_EQ(2U, share_of_one(large, 4, 8));
  EXPECT_EQ(1U, share_of_one(large, 6, 6));
}

TEST(Shares, ACrowdGetsHalfOfTheProcessorsThatNobodyHas) {
  EXPECT_EQ(1U, share_of_one(large, 8, 0));
  EXPECT_EQ(1U, share_of_one(large, 8, 3));
  EXPECT_EQ(0U, share_of_one(large, 8, 4));
  EXPECT_EQ(1U, share_of_one(large, 14, 0));
  EXPECT_EQ(0U, share_of_one(large, 14, 1));
}

TEST(Shares, CallersForAllProcessorsGetNobody) {
  EXPECT_EQ(0U, share_of_one(large, 15, 0));
  EXPECT_EQ(0U, share_of_one(large, 16, 0));
  EXPECT_EQ(0U, share_of_one(large, 64, 0));
}

TEST(Shares, ACrowdHasNoMoreHandsThanThereAreLanes) {
  constexpr Workforce huge{.processors = 256, .lanes = 11};
  EXPECT_EQ(1U, share_of_one(huge, 20, 10));
  EXPECT_EQ(0U, share_of_one(huge, 20, 11));
}

TEST(Shares, SmallMachinesHaveNothingToSpare) {
  EXPECT_EQ(0U, share_of_one({.processors = 1, .lanes = 0}, 1, 0));
  EXPECT_EQ(0U, share_of_one({.processors = 1, .lanes = 0}, 3, 0));
  EXPECT_EQ(1U, share_of_one({.processors = 2, .lanes = 1}, 1, 0));
  EXPECT_EQ(0U, share_of_one({.processors = 2, .lanes = 1}, 2, 0));
}

TEST(Shares, LanesStayAwakeForWhatAllWant) {
  EXPECT_EQ(9U, wanted_by_all(large, 1, 9));
  EXPECT_EQ(8U, wanted_by_all(large, 4, 2));
  EXPECT_EQ(4U, wanted_by_all(large, 8, 1));
  EXPECT_EQ(0U, wanted_by_all(large, 20, 1));
}

}  // namespace
}  // namespace sluice::workers
