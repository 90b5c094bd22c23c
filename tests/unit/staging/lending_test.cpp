// SPDX-License-Identifier: Apache-2.0
// What sluice.links means.
#include "staging/lending.h"

#include <gtest/gtest.h>

namespace sluice::staging {
namespace {

TEST(LendingRules, OwnLendsNothing) {
  const auto rules = lending_rules("own", 1, 2);
  ASSERT_TRUE(rules);
  EXPECT_FALSE(rules->on);
}

TEST(LendingRules, ByItselfItChangesNothingOfTheProgram) {
  const auto rules = lending_rules("auto", 64, 128);
  ASSERT_TRUE(rules);
  EXPECT_TRUE(rules->on && rules->by_kernel);
  EXPECT_FALSE(rules->asked || rules->named || rules->makes_contexts || rules->switches_peers);
  EXPECT_EQ(rules->devices, ~std::uint64_t{0});
}

TEST(LendingRules, LendTakesAllThatTheProcessWorksWith) {
  const auto rules = lending_rules("lend", 64, 128);
  ASSERT_TRUE(rules);
  EXPECT_TRUE(rules->on && rules->asked && rules->switches_peers);
  EXPECT_FALSE(rules->named);
  EXPECT_FALSE(rules->makes_contexts) << "a context costs memory that was not offered";
  EXPECT_EQ(rules->devices, ~std::uint64_t{0});
  EXPECT_EQ(rules->least_bytes, 64u);
  EXPECT_EQ(rules->most_bytes, 128u);
}

TEST(LendingRules, ThoseThatAreNamedMayGetAContext) {
  const auto rules = lending_rules("0,2,63", 1, 2);
  ASSERT_TRUE(rules);
  EXPECT_TRUE(rules->on && rules->named && rules->makes_contexts);
  EXPECT_EQ(rules->devices, 1U | 4U | std::uint64_t{1} << 63U);
  EXPECT_EQ(lending_rules("7", 1, 2)->devices, 128u);
}

TEST(LendingRules, OtherTextsAreRefused) {
  for (const char* const text : {"", "none", "1,,2", "1,", ",1", "1 2", "64", "-1", "0x1", "lend,1", "GPU1"}) {
    EXPECT_FALSE(lending_rules(text, 1, 2)) << text;
  }
}

TEST(Lent, EachAnswerHasWords) {
  for (int i = 0; i <= static_cast<int>(Lent::no_processors); ++i) {
    EXPECT_STRNE(words_of(static_cast<Lent>(i)), "") << i;
  }
}

TEST(KernelThere, EachAnswerHasWords) {
  for (int i = 0; i <= static_cast<int>(KernelThere::was_refused); ++i) {
    EXPECT_STRNE(words_of(static_cast<KernelThere>(i)), "") << i;
  }
}

}  // namespace
}  // namespace sluice::staging
