// SPDX-License-Identifier: Apache-2.0
#include "workers/helper_sleep.h"

#include <gtest/gtest.h>

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace sluice::workers {
namespace {

constexpr auto in_time = std::chrono::microseconds(30);
constexpr auto late = HelperSleep::too_long + std::chrono::microseconds(1);

std::uint32_t requests_without(HelperSleep& helper_sleep) {
  std::uint32_t requests = 0;
  while (!helper_sleep.is_allowed()) ++requests;
  return requests;
}

TEST(HelperSleep, GoOnWhereTheThreadWakesInTime) {
  HelperSleep helper_sleep;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(helper_sleep.learn(in_time));
  EXPECT_TRUE(helper_sleep.is_allowed());
}

TEST(HelperSleep, GoOnWhereOneIsLateNowAndThen) {
  HelperSleep helper_sleep;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(helper_sleep.learn(late));
    EXPECT_TRUE(helper_sleep.learn(in_time));
  }
  EXPECT_TRUE(helper_sleep.is_allowed());
}

TEST(HelperSleep, AreLetBeWhereTheThreadWakesLateTwiceInARow) {
  HelperSleep helper_sleep;
  EXPECT_TRUE(helper_sleep.learn(late));
  EXPECT_FALSE(helper_sleep.learn(late));
  EXPECT_EQ(requests_without(helper_sleep), base::Cooldown::shortest);
}

TEST(HelperSleep, AreLetBeForLongerWhereThatGoesOn) {
  HelperSleep helper_sleep;
  std::uint32_t longest = 0;
  for (int i = 0; i < 10; ++i) {
    helper_sleep.learn(late);
    EXPECT_FALSE(helper_sleep.learn(late));
    longest = std::max(longest, requests_without(helper_sleep));
  }
  EXPECT_EQ(longest, HelperSleep::longest_cooldown);
  helper_sleep.learn(in_time);
  helper_sleep.learn(late);
  helper_sleep.learn(late);
  EXPECT_EQ(requests_without(helper_sleep), base::Cooldown::shortest) << "one that came in time is believed";
}

TEST(HelperSleep, LeaveTheThreadsTimersAsTheyWere) {
  std::thread([] {
    const int before = ::prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    ASSERT_GT(before, 0);
    HelperSleep helper_sleep;
    helper_sleep.take();
    EXPECT_EQ(::prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL), before);
  }).join();
}

}  // namespace
}  // namespace sluice::workers
