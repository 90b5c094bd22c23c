// SPDX-License-Identifier: Apache-2.0
// The thread that calls the driver in the place of those who cannot wait for it.
#include "workers/aside.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "process/in_flight.h"

namespace sluice::workers {
namespace {

std::atomic<bool> ends{false};
std::atomic<bool> has_answered{false};

// The driver's own handlers come behind ours: none of them may find a call under way.
TEST(Aside, IsWaitedForByTheEndOfTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::atexit([] { ::_exit(has_answered ? 0 : 1); });  // the last handler
        process::wait_for_transfers_at_exit();
        std::atexit([] {  // the first one
          ends = true;
          ends.notify_all();
        });
        const bool is_running = run_aside([] {
          ends.wait(false);
          std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a driver that takes its time
          has_answered = true;
        });
        std::exit(is_running ? 2 : 3);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Aside, IsOneAtATime) {
  std::atomic<bool> may_end{false};
  ASSERT_TRUE(run_aside([&] { may_end.wait(false); }));
  EXPECT_TRUE(is_aside());
  EXPECT_FALSE(run_aside([] {}));
  may_end = true;
  may_end.notify_all();
  while (is_aside()) std::this_thread::yield();
}

TEST(Aside, RunsTheLastThatIsToComeBehindWhatItIsAt) {
  std::atomic<bool> may_end{false};
  std::atomic<int> sum{0};
  ASSERT_TRUE(run_aside([&] {
    may_end.wait(false);
    sum += 1;
  }));
  ASSERT_TRUE(run_behind([&] { sum += 10; }));
  ASSERT_TRUE(run_behind([&] { sum += 100; }));
  EXPECT_EQ(sum, 0);
  may_end = true;
  may_end.notify_all();
  EXPECT_TRUE(wait_for_aside(std::chrono::hours(1)));
  EXPECT_EQ(sum, 101);
  ASSERT_TRUE(run_behind([&] { sum += 1000; })) << "at once, where it is at nothing";
  EXPECT_TRUE(wait_for_aside(std::chrono::hours(1)));
  EXPECT_EQ(sum, 1101);
}

TEST(Aside, IsWaitedForNoLongerThanAsked) {
  EXPECT_TRUE(wait_for_aside(std::chrono::milliseconds(0)));
  std::atomic<bool> may_end{false};
  ASSERT_TRUE(run_aside([&] { may_end.wait(false); }));
  EXPECT_FALSE(wait_for_aside(std::chrono::milliseconds(1)));
  may_end = true;
  may_end.notify_all();
  EXPECT_TRUE(wait_for_aside(std::chrono::hours(1)));
}

}  // namespace
}  // namespace sluice::workers
