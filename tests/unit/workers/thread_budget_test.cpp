// SPDX-License-Identifier: Apache-2.0
// How many threads requests get, alone and in a crowd.
#include "workers/thread_budget.h"

#include <gtest/gtest.h>

namespace sluice::workers {
namespace {

constexpr ThreadBudget large{.processors = 16, .workers = 11};

TEST(ThreadBudgetShares, OneAloneMayHaveAllWorkers) {
  EXPECT_EQ(11U, helpers_for_one(large, 1, 0));
  EXPECT_EQ(11U, helpers_for_one(large, 1, 11)) << "those at work may be about to leave";
}

TEST(ThreadBudgetShares, FewDivideTheWorkers) {
  EXPECT_EQ(5U, helpers_for_one(large, 2, 0));
  EXPECT_EQ(2U, helpers_for_one(large, 4, 8));
  EXPECT_EQ(1U, helpers_for_one(large, 6, 6));
}

TEST(ThreadBudgetShares, ACrowdGetsHalfOfTheProcessorsThatNobodyHas) {
  EXPECT_EQ(1U, helpers_for_one(large, 8, 0));
  EXPECT_EQ(1U, helpers_for_one(large, 8, 3));
  EXPECT_EQ(0U, helpers_for_one(large, 8, 4));
  EXPECT_EQ(1U, helpers_for_one(large, 14, 0));
  EXPECT_EQ(0U, helpers_for_one(large, 14, 1));
}

TEST(ThreadBudgetShares, CallersForAllProcessorsGetNobody) {
  EXPECT_EQ(0U, helpers_for_one(large, 15, 0));
  EXPECT_EQ(0U, helpers_for_one(large, 16, 0));
  EXPECT_EQ(0U, helpers_for_one(large, 64, 0));
}

TEST(ThreadBudgetShares, ACrowdHasNoMoreHelpersThanThereAreWorkers) {
  constexpr ThreadBudget huge{.processors = 256, .workers = 11};
  EXPECT_EQ(1U, helpers_for_one(huge, 20, 10));
  EXPECT_EQ(0U, helpers_for_one(huge, 20, 11));
}

TEST(ThreadBudgetShares, SmallMachinesHaveNothingToSpare) {
  EXPECT_EQ(0U, helpers_for_one({.processors = 1, .workers = 0}, 1, 0));
  EXPECT_EQ(0U, helpers_for_one({.processors = 1, .workers = 0}, 3, 0));
  EXPECT_EQ(1U, helpers_for_one({.processors = 2, .workers = 1}, 1, 0));
  EXPECT_EQ(0U, helpers_for_one({.processors = 2, .workers = 1}, 2, 0));
}

TEST(ThreadBudgetShares, WorkersStayAwakeForWhatAllWant) {
  EXPECT_EQ(9U, wanted_by_all(large, 1, 9));
  EXPECT_EQ(8U, wanted_by_all(large, 4, 2));
  EXPECT_EQ(4U, wanted_by_all(large, 8, 1));
  EXPECT_EQ(0U, wanted_by_all(large, 20, 1));
}

}  // namespace
}  // namespace sluice::workers
