#include "workers/naps.h"

#include <gtest/gtest.h>

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace sluice::workers {
namespace {

constexpr auto in_time = std::chrono::microseconds(30);
constexpr auto late = Naps::too_long + std::chrono::microseconds(1);

std::uint32_t requests_without(Naps& naps) {
  std::uint32_t requests = 0;
  while (!naps.are_allowed()) ++requests;
  return requests;
}

TEST(Naps, GoOnWhereTheThreadWakesInTime) {
  Naps naps;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(naps.learn(in_time));
  EXPECT_TRUE(naps.are_allowed());
}

TEST(Naps, GoOnWhereOneIsLateNowAndThen) {
  Naps naps;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(naps.learn(late));
    for (unsigned others = 0; others < Naps::late_by; ++others) EXPECT_TRUE(naps.learn(in_time));
  }
  EXPECT_TRUE(naps.are_allowed());
}

TEST(Naps, AreLetBeWhereEverySecondOneIsLate) {
  Naps naps;
  bool goes_on = true;
  for (int i = 0; i < 4 && goes_on; ++i) goes_on = naps.learn(in_time) && naps.learn(late);
  EXPECT_FALSE(goes_on);
  EXPECT_FALSE(naps.are_allowed());
}

TEST(Naps, AreLetBeWhereTheThreadWakesLateTwiceInARow) {
  Naps naps;
  EXPECT_TRUE(naps.learn(late));
  EXPECT_FALSE(naps.learn(late));
  EXPECT_EQ(requests_without(naps), base::Rest::shortest);
}

TEST(Naps, AreLetBeForLongerWhereThatGoesOn) {
  Naps naps;
  std::uint32_t longest = 0;
  for (int i = 0; i < 10; ++i) {
    naps.learn(late);
    EXPECT_FALSE(naps.learn(late));
    longest = std::max(longest, requests_without(naps));
  }
  EXPECT_EQ(longest, Naps::longest_rest);
  naps.learn(in_time);
  naps.learn(late);
  naps.learn(late);
  EXPECT_EQ(requests_without(naps), base::Rest::shortest) << "one that came in time is believed";
}

TEST(Naps, LeaveTheThreadsTimersAsTheyWere) {
  std::thread([] {
    const int before = ::prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    ASSERT_GT(before, 0);
    Naps naps;
    naps.take();
    EXPECT_EQ(::prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL), before);
  }).join();
}

}  // namespace
}  // namespace sluice::workers
