// SPDX-License-Identifier: Apache-2.0
// Which port a transfer goes by.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "rdma/choice.h"

namespace sluice::rdma {
namespace {

std::vector<unsigned> nearest(std::vector<Candidate> all, int ranks) {
  all.resize(keep_nearest(all, ranks));
  std::vector<unsigned> slots;
  slots.reserve(all.size());
  for (const Candidate& one : all) slots.push_back(one.slot);
  std::sort(slots.begin(), slots.end());
  return slots;
}

TEST(Choice, RanksAreDistancesNotPorts) {
  const std::vector<Candidate> all = {{0, 0x2000}, {1, 1}, {2, 1}, {3, 0x4000}, {4, 0x2000}};
  EXPECT_EQ(nearest(all, 1), (std::vector<unsigned>{1, 2}));
  EXPECT_EQ(nearest(all, 2), (std::vector<unsigned>{0, 1, 2, 4}));
  EXPECT_EQ(nearest(all, 9), (std::vector<unsigned>{0, 1, 2, 3, 4}));
  EXPECT_EQ(nearest({}, 1), std::vector<unsigned>{});
}

std::map<unsigned, int> chosen(const std::vector<Candidate>& all, Balance balance, std::uint32_t turns) {
  std::map<unsigned, int> counts;
  for (std::uint32_t turn = 0; turn < turns; ++turn) ++counts[all[choose(all, balance, turn)].slot];
  return counts;
}

TEST(Choice, EachPolicyTakesItsOwn) {
  const std::vector<Candidate> all = {{0, 9, -1, 500}, {1, 3, -1, 700}, {2, 9, -1, 0}, {3, 3, -1, 0}};
  EXPECT_EQ(chosen(all, Balance::first_fit, 4), (std::map<unsigned, int>{{1, 4}}));
  EXPECT_EQ(chosen(all, Balance::max_min_fit, 4), (std::map<unsigned, int>{{3, 4}}));
  EXPECT_EQ(chosen(all, Balance::round_robin, 8), (std::map<unsigned, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}}));
  EXPECT_EQ(chosen(all, Balance::round_robin_max_min, 8), (std::map<unsigned, int>{{2, 4}, {3, 4}}));
  const auto spread = chosen(all, Balance::randomized, 4000);
  for (unsigned slot = 0; slot < 4; ++slot) EXPECT_NEAR(spread.at(slot), 1000, 150);
}

TEST(Choice, WhatTheFileSystemRanksComesFirst) {
  const std::vector<Candidate> all = {{0, 1, -1}, {1, 1, 7}, {2, 1, 4}, {3, 1, 4}};
  for (const Balance balance : {Balance::first_fit, Balance::max_min_fit}) {
    EXPECT_EQ(chosen(all, balance, 3), (std::map<unsigned, int>{{2, 3}}));
  }
  EXPECT_EQ(chosen(all, Balance::round_robin, 4), (std::map<unsigned, int>{{2, 2}, {3, 2}}));
}

TEST(Choice, PoliciesHaveTheirNames) {
  EXPECT_EQ(balance_named("RoundRobinMaxMin"), Balance::round_robin_max_min);
  EXPECT_EQ(balance_named("roundrobin"), std::nullopt);
}

}  // namespace
}  // namespace sluice::rdma
