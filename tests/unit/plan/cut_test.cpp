// SPDX-License-Identifier: Apache-2.0
// Which ranges go as one transfer, which in pieces, and in which order.
#include "plan/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sluice::plan {
namespace {

char one_file;
char other_file;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

// Memory of one piece, but for a border.
class OneBorder final : public Places {
 public:
  explicit OneBorder(std::uint64_t border, std::uint64_t piece_bytes) : border_(border), piece_bytes_(piece_bytes) {}
  bool are_one(const Range& one, const Range& next) override {
    return (one.address < border_) == (next.address < border_);
  }
  std::uint64_t piece_bytes(const Range& /*range*/) override { return piece_bytes_; }

 private:
  std::uint64_t border_;
  std::uint64_t piece_bytes_;
};

std::vector<Cut> cuts_of(const std::vector<Range>& ranges, std::uint64_t border = ~std::uint64_t{0},
                         std::uint64_t piece_bytes = part_bytes) {
  OneBorder places(border, piece_bytes);
  return cut(ranges, order_of(ranges), places);
}

TEST(PlanOrder, IsThatOfTheFilesAndOfTheirOffsets) {
  const std::vector<Range> ranges = {{&one_file, 300, 1, 10}, {&other_file, 50, 1, 10}, {&one_file, 100, 1, 0},
                                     {&one_file, 200, 1, 10}, {&other_file, 20, 1, 10}, {&one_file, 200, 9, 5}};
  EXPECT_EQ(order_of(ranges), (std::vector<std::uint32_t>{3, 5, 0, 4, 1}));
}

TEST(PlanCut, JoinsWhatFollowsInFileAndMemory) {
  const auto cuts = cuts_of({{&one_file, 0, 1000, 10},
                             {&one_file, 10, 1010, 20},
                             {&one_file, 30, 1030, 5},
                             {&one_file, 35, 2000, 5},      // elsewhere in memory
                             {&one_file, 41, 2005, 5},      // elsewhere in the file
                             {&other_file, 46, 2010, 5}});  // another file
  ASSERT_EQ(cuts.size(), 4U);
  EXPECT_EQ(cuts[0].count, 3U);
  EXPECT_EQ(cuts[0].size, 35U);
  for (std::size_t i = 1; i < cuts.size(); ++i) EXPECT_EQ(cuts[i].count, 1U) << i;
}

TEST(PlanCut, KeepsPiecesOfMemoryApart) {
  EXPECT_EQ(cuts_of({{&one_file, 0, 1000, 10}, {&one_file, 10, 1010, 10}}, 1010).size(), 2U);
}

TEST(PlanCut, EndsATransferWhereItIsLongEnough) {
  std::vector<Range> ranges;
  for (std::uint64_t i = 0; i < 100; ++i) ranges.push_back({&one_file, i * kMiB, kMiB + i * kMiB, kMiB});
  const auto cuts = cuts_of(ranges);
  EXPECT_EQ(cuts.size(), 4U);
  EXPECT_EQ(cuts.front().size, part_bytes);
}

TEST(PlanCut, CutsLargeRangesOnPagesOfTheFile) {
  const std::uint64_t at = 4096 * 3 + 100;
  const std::uint64_t size = 3 * part_bytes + 17;
  const auto cuts = cuts_of({{&one_file, at, 5, size}, {&one_file, at + size, 5 + size, 10}});
  std::uint64_t next = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    EXPECT_EQ(cuts[i].begin, next);
    EXPECT_LE(cuts[i].size, part_bytes);
    EXPECT_TRUE(i == 0 || (at + cuts[i].begin) % 4096 == 0) << i;
    next += cuts[i].size;
  }
  EXPECT_EQ(next, size);
  EXPECT_EQ(cuts.back().size, 10U) << "what follows a range in pieces stands by itself";
}

TEST(PlanCut, LeavesLargerPiecesWhereSeveralLinksCarryThem) {
  for (const std::uint64_t at : {0ULL, 4097ULL}) {
    for (const std::uint64_t size :
         {part_bytes + 1, most_in_a_lent_part, most_in_a_lent_part + 1, 5 * most_in_a_lent_part / 2}) {
      const auto cuts = cuts_of({{&one_file, at, 5, size}}, ~0ULL, lent_part_bytes(size));
      ASSERT_EQ(cuts.size(), (size + most_in_a_lent_part - 1) / most_in_a_lent_part) << size << " at " << at;
      for (const Cut& cut : cuts) EXPECT_NEAR(cut.size, size / cuts.size(), 4 * 4096) << size << " at " << at;
    }
  }
}

TEST(PlanCut, OfNothingIsNothing) {
  EXPECT_TRUE(cuts_of({{&one_file, 0, 1, 0}}).empty());
}

}  // namespace
}  // namespace sluice::plan
