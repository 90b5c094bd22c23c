// SPDX-License-Identifier: Apache-2.0
// What is told of items whose parts end in any order.
#include "plan/items.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace sluice::plan {
namespace {

class PlanItems : public ::testing::Test {
 protected:
  // Items of 100 bytes, in parts of 50.
  static constexpr std::uint64_t half = 50;
  Items items_{std::vector<Range>{{nullptr, 0, 1, 2 * half}, {nullptr, 0, 1, 2 * half}, {nullptr, 0, 1, 0}}};

  void SetUp() override {
    for (const std::uint32_t item : {0U, 0U, 1U, 1U}) items_.expect_part(item);
    items_.begin();
  }
  void come(std::uint32_t item, std::uint64_t begin, std::uint64_t there, int error = 0, bool cancelled = false) {
    items_.has_come(item, {begin, half, there, error, SLUICE_PATH_POSIX, SLUICE_REASON_HOST_MEMORY, cancelled});
    items_.tell();
  }
};

TEST_F(PlanItems, EndWithTheirLastPart) {
  EXPECT_EQ(items_.ended(), 1U) << "the empty one";
  come(0, half, half);
  EXPECT_EQ(items_.result_of(0).state, SLUICE_ITEM_WAITING);
  come(0, 0, half);
  EXPECT_EQ(items_.result_of(0).state, SLUICE_ITEM_DONE);
  EXPECT_EQ(items_.result_of(0).bytes, 2 * half);
}

TEST_F(PlanItems, CountFromTheirStartToWhereAPartCameShort) {
  come(0, half, 30);
  come(0, 0, 20, EIO);
  EXPECT_EQ(items_.result_of(0).state, SLUICE_ITEM_FAILED);
  EXPECT_EQ(items_.result_of(0).error, EIO);
  EXPECT_EQ(items_.result_of(0).bytes, 20U);
  come(1, 0, half);
  come(1, half, 7);
  EXPECT_EQ(items_.result_of(1).state, SLUICE_ITEM_DONE) << "the file ends there";
  EXPECT_EQ(items_.result_of(1).bytes, half + 7);
}

TEST_F(PlanItems, AreCancelledWhereAPartIs) {
  come(1, 0, half);
  come(1, half, 0, 0, true);
  EXPECT_EQ(items_.result_of(1).state, SLUICE_ITEM_CANCELLED);
  EXPECT_EQ(items_.result_of(1).bytes, half);
}

TEST_F(PlanItems, TellTheFrontOneAfterTheOther) {
  come(1, 0, half);
  come(1, half, half);
  EXPECT_FALSE(items_.front()->has_reached(1)) << "the first has not ended";
  come(0, 0, half);
  come(0, half, 0, EIO);
  EXPECT_TRUE(items_.front()->has_reached(3));
  sluice_plan_counts_t counts{};
  items_.fill(counts);
  EXPECT_EQ(counts.items_in_front, 3U);
  EXPECT_EQ(counts.items_failed, 1U);
  EXPECT_EQ(counts.bytes_in_place, 3 * half);
  EXPECT_TRUE(items_.have_all_ended());
}

}  // namespace
}  // namespace sluice::plan
