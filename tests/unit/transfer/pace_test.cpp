// SPDX-License-Identifier: Apache-2.0
// Who gets the next chunk, where several carriers share places that are taken again in the order of chunks.
#include "transfer/sink/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

namespace sluice::transfer {
namespace {

using std::chrono::microseconds;
using Time = Pace::Clock::time_point;

TEST(Pace, IsWhatWasSeen) {
  Pace pace;
  Time now{};
  pace.begins(now);
  for (int i = 0; i < 50; ++i) {
    now += microseconds(160);
    pace.has_done(2, now);
  }
  EXPECT_NEAR(static_cast<double>(pace.for_one_more(2, now).count()), 240e3, 1e3);
}

TEST(Pace, DoesNotCountTheTimeInWhichThereWasNothingToDo) {
  Pace pace;
  Time now{};
  for (int i = 0; i < 50; ++i) {
    now += std::chrono::seconds(1);
    pace.begins(now);
    now += microseconds(20);
    pace.has_done(1, now);
  }
  EXPECT_NEAR(static_cast<double>(pace.for_one_more(0, now + std::chrono::seconds(1)).count()), 20e3, 1e3);
}

TEST(Pace, OfWhatHasStoppedGetsWorseWithEveryLook) {
  Pace pace;
  pace.begins(Time{});
  EXPECT_EQ(pace.for_one_more(3, Time(microseconds(50))), microseconds(200));
  EXPECT_EQ(pace.for_one_more(3, Time(microseconds(500))), microseconds(2000));
}

TEST(Pace, IsNotThatOfWhoLooks) {
  Pace pace;
  Time now{};
  pace.begins(now);
  for (int i = 0; i < 50; ++i) pace.has_done(1, now += microseconds(10));
  pace.has_done(1, now += std::chrono::milliseconds(50));
  EXPECT_LT(pace.for_one_more(0, now), microseconds(20));
}

// Carriers that take so long for each chunk, and places for 64. How many chunks go in a second, of an endless file that
// readers bring as fast as places come free.
double chunks_a_second(const std::vector<microseconds>& each) {
  struct Carrier {
    Pace pace;
    std::deque<Time> ends;  // of what waits
    Time free{};
  };
  constexpr std::size_t places = 64;
  std::vector<Carrier> carriers(each.size());
  std::deque<Time> in_order;  // when each chunk leaves its place
  Time now{};
  constexpr int chunks = 20000;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    // The place of the oldest is the next one.
    if (in_order.size() == places) {
      now = std::max(now, in_order.front());
      in_order.pop_front();
    }
    Carrier* best = nullptr;
    Pace::Clock::duration least = Pace::Clock::duration::max();
    for (Carrier& one : carriers) {
      std::uint32_t done = 0;
      for (; !one.ends.empty() && one.ends.front() <= now; one.ends.pop_front()) ++done;
      if (done > 0) one.pace.has_done(done, now);
      const auto due = one.pace.for_one_more(static_cast<std::uint32_t>(one.ends.size()), now);
      if (due >= least) continue;
      best = &one;
      least = due;
    }
    if (best->ends.empty()) best->pace.begins(now);
    const auto takes = each[static_cast<std::size_t>(best - carriers.data())];
    best->free = std::max(best->free, now) + takes;
    best->ends.push_back(best->free);
    in_order.push_back(best->free);
  }
  return chunks / std::chrono::duration<double>(now.time_since_epoch()).count();
}

double all_of(const std::vector<microseconds>& each) {
  double sum = 0;
  for (const microseconds one : each) sum += 1 / std::chrono::duration<double>(one).count();
  return sum;
}

TEST(Pace, KeepsCarriersBusyThatAreAlike) {
  const std::vector<microseconds> each{microseconds(11), microseconds(11)};
  EXPECT_GT(chunks_a_second(each), 0.95 * all_of(each));
}

TEST(Pace, LetsNoSlowCarrierHoldUpTheOthers) {
  for (const int slow : {20, 40, 85, 300}) {
    const std::vector<microseconds> each{microseconds(slow), microseconds(12)};
    EXPECT_GT(chunks_a_second(each), 0.9 * all_of(each)) << slow;
  }
  const std::vector<microseconds> four{microseconds(85), microseconds(12), microseconds(25), microseconds(30)};
  EXPECT_GT(chunks_a_second(four), 0.9 * all_of(four));
}

}  // namespace
}  // namespace sluice::transfer
