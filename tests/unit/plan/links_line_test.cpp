// SPDX-License-Identifier: Apache-2.0
// One large read of plans goes, one stands ready, and the plans of the others are notified.
#include "plan/links_line.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace sluice::plan {
namespace {

using namespace std::chrono_literals;

char some_plan;
char other_plan;

std::vector<void*> notified_by(const LinksLine::Plans& plans) {
  return {plans.all().begin(), plans.all().end()};
}

TEST(LinksLine, LetsTheNextOneGoOnlyWhenTheOneBeforeIsThrough) {
  LinksLine line(1h);
  const auto first = line.enter(&some_plan);
  const auto second = line.enter(&some_plan);
  ASSERT_NE(first, LinksLine::none);
  ASSERT_NE(second, LinksLine::none);
  EXPECT_TRUE(notified_by(line.wait(first)).empty());
  std::atomic<bool> is_there{false};
  std::atomic<bool> is_through{false};
  std::thread next([&] {
    is_there = true;
    EXPECT_TRUE(notified_by(line.wait(second)).empty());
    EXPECT_TRUE(is_through);
  });
  // Long enough for one that does not wait to be seen.
  while (!is_there) std::this_thread::yield();
  for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
  is_through = true;
  EXPECT_TRUE(notified_by(line.leave(first)).empty());
  next.join();
  EXPECT_TRUE(notified_by(line.leave(second)).empty());
}

TEST(LinksLine, NotifiesThePlansThatCameTooEarlyOnceEach) {
  LinksLine line(1h);
  const auto first = line.enter(&some_plan);
  const auto second = line.enter(&some_plan);
  EXPECT_EQ(line.enter(&some_plan), LinksLine::none);
  EXPECT_EQ(line.enter(&other_plan), LinksLine::none);
  EXPECT_EQ(line.enter(&some_plan), LinksLine::none);
  EXPECT_EQ(notified_by(line.leave(first)), (std::vector<void*>{&some_plan, &other_plan}));
  const auto third = line.enter(&other_plan);
  EXPECT_NE(third, LinksLine::none);
  EXPECT_EQ(line.enter(&some_plan), LinksLine::none);
  EXPECT_EQ(notified_by(line.leave(third)), (std::vector<void*>{&some_plan})) << "that stood ready and did not go";
  EXPECT_TRUE(notified_by(line.leave(second)).empty());
}

TEST(LinksLine, WaitsForNoneThatTakesTooLong) {
  LinksLine line(1ms);
  const auto stuck = line.enter(&some_plan);
  const auto second = line.enter(&some_plan);
  EXPECT_EQ(line.enter(&other_plan), LinksLine::none);
  EXPECT_EQ(notified_by(line.wait(second)), (std::vector<void*>{&other_plan}));
  const auto third = line.enter(&other_plan);
  EXPECT_NE(third, LinksLine::none);
  EXPECT_TRUE(notified_by(line.leave(stuck)).empty()) << "it holds nothing up any more";
  EXPECT_EQ(line.enter(&some_plan), LinksLine::none) << "one goes, and one stands ready";
  EXPECT_EQ(notified_by(line.leave(second)), (std::vector<void*>{&some_plan}));
  EXPECT_TRUE(notified_by(line.leave(third)).empty());
}

TEST(LinksLine, KeepsNoReadBackWhosePlanItCouldNotNotify) {
  LinksLine line(1h);
  std::vector<char> plans(LinksLine::most_plans + 1);
  const auto first = line.enter(plans.data());
  const auto second = line.enter(plans.data());
  for (std::size_t i = 0; i < LinksLine::most_plans; ++i) EXPECT_EQ(line.enter(&plans[i]), LinksLine::none) << i;
  const auto beside = line.enter(&plans.back());
  ASSERT_NE(beside, LinksLine::none);
  EXPECT_TRUE(notified_by(line.wait(beside)).empty()) << "at once";
  EXPECT_TRUE(notified_by(line.leave(beside)).empty());
  EXPECT_EQ(notified_by(line.leave(first)).size(), LinksLine::most_plans);
  EXPECT_TRUE(notified_by(line.leave(second)).empty());
}

TEST(LinksLine, HasNobodyInTheChildOfAFork) {
  LinksLine line(1h);
  const auto first = line.enter(&some_plan);
  static_cast<void>(line.enter(&some_plan));
  EXPECT_EQ(line.enter(&some_plan), LinksLine::none);
  LinksLine::before_fork();
  line.forget_all();
  LinksLine::after_fork();
  EXPECT_NE(line.enter(&some_plan), first);
  EXPECT_NE(line.enter(&some_plan), LinksLine::none);
}

}  // namespace
}  // namespace sluice::plan
