// SPDX-License-Identifier: Apache-2.0
#include "batch/vectored_group.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <set>
#include <thread>

namespace sluice::batch {
namespace {

constexpr std::size_t most_at_a_time = 32;

using Groups = std::set<const VectoredGroup*>;

// Of so many threads, each of which has ended before the next one begins.
Groups of_threads_in_turn(std::size_t count) {
  Groups groups;
  for (std::size_t i = 0; i < count; ++i) {
    std::thread([&] {
      const VectoredLease lease;
      groups.insert(lease.operator->());
    }).join();
  }
  return groups;
}

// In a process of its own: what one test has had lent is kept for the next.
void exit_with_groups_of_threads_in_turn(std::size_t lent_before) {
  { const std::deque<VectoredLease> leases(lent_before); }
  std::exit(static_cast<int>(of_threads_in_turn(100).size()));  // NOLINT(concurrency-mt-unsafe)
}

TEST(VectoredGroups, ThreadsThatFollowOneAnotherShareOne) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_groups_of_threads_in_turn(0), ::testing::ExitedWithCode(1), "");
}

TEST(VectoredGroups, AsManyAreKeptAsWereLentAtTheSameTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_groups_of_threads_in_turn(3), ::testing::ExitedWithCode(3), "");
}

TEST(VectoredGroups, EachLoanIsOfAnotherOneUntilThereAreNoMore) {
  std::deque<VectoredLease> leases(most_at_a_time);
  Groups groups;
  for (const VectoredLease& lease : leases) groups.insert(lease.operator->());
  EXPECT_EQ(groups.size(), most_at_a_time);
  EXPECT_EQ(groups.count(nullptr), 0U);
  EXPECT_FALSE(VectoredLease());
  leases.clear();
  EXPECT_TRUE(VectoredLease());
}

}  // namespace
}  // namespace sluice::batch
