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
  EXPECT_NEAR(static_cast<double>(pace.for_one_more(0, now + microseconds(1)).count()), 20e3, 1e3);
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

TEST(Pace, OfWhatWasSlowIsTriedAgain) {
  Pace pace;
  Time now{};
  pace.begins(now);
  for (int i = 0; i < 50; ++i) pace.has_done(1, now += microseconds(800));
  EXPECT_GT(pace.for_one_more(0, now), microseconds(700));
  EXPECT_EQ(pace.for_one_more(0, now + std::chrono::milliseconds(20)), microseconds(0));
}

// So long each carrier takes for a chunk.
using Speeds = std::vector<microseconds>;

struct File {
  int chunks = 20000;
  microseconds reading{0};  // of each chunk, by as many readers as there are
  Speeds later{};           // from the middle of the file on, where they are others
};

// How many chunks go in a second, with places for 64, which are taken again in the order of chunks.
double chunks_a_second(const Speeds& each, const File& file = {}) {
  struct Carrier {
    Pace pace;
    std::deque<Time> ends;  // of what waits
    Time free{};
  };
  constexpr std::size_t places = 64;
  std::vector<Carrier> carriers(each.size());
  std::deque<Time> in_order;  // when each chunk leaves its place
  Time now{};
  Time last{};
  for (int chunk = 0; chunk < file.chunks; ++chunk) {
    now += file.reading;
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
    const bool is_later = !file.later.empty() && chunk >= file.chunks / 2;
    const auto takes = (is_later ? file.later : each)[static_cast<std::size_t>(best - carriers.data())];
    best->free = std::max(best->free, now) + takes;
    best->ends.push_back(best->free);
    in_order.push_back(best->free);
    last = std::max(last, best->free);
  }
  return file.chunks / std::chrono::duration<double>(last.time_since_epoch()).count();
}

double all_of(const Speeds& each) {
  double sum = 0;
  for (const microseconds one : each) sum += 1 / std::chrono::duration<double>(one).count();
  return sum;
}

TEST(Pace, KeepsCarriersBusyThatAreAlike) {
  const Speeds each{microseconds(11), microseconds(11)};
  EXPECT_GT(chunks_a_second(each), 0.95 * all_of(each));
  EXPECT_GT(chunks_a_second(each, {.chunks = 128}), 0.9 * all_of(each));
}

TEST(Pace, LetsNoSlowCarrierHoldUpTheOthers) {
  for (const int slow : {20, 40, 85, 300}) {
    const Speeds each{microseconds(slow), microseconds(12)};
    EXPECT_GT(chunks_a_second(each), 0.9 * all_of(each)) << slow;
  }
  const Speeds four{microseconds(85), microseconds(12), microseconds(25), microseconds(30)};
  EXPECT_GT(chunks_a_second(four), 0.9 * all_of(four));
}

// 64 MiB have 128 chunks: what was learnt has to be learnt soon.
TEST(Pace, IsLearntWithinAShortRead) {
  for (const int slow : {40, 85}) {
    const Speeds each{microseconds(slow), microseconds(12)};
    for (const int chunks : {128, 512}) {
      EXPECT_GT(chunks_a_second(each, {.chunks = chunks, .reading = microseconds(5)}), 0.85 * all_of(each))
          << slow << " us, " << chunks << " chunks";
    }
  }
}

TEST(Pace, FollowsWhatChangesInTheMiddle) {
  const Speeds slow_at_first{microseconds(300), microseconds(12)};
  const Speeds alike{microseconds(12), microseconds(12)};
  const double mean = 2 / (1 / all_of(slow_at_first) + 1 / all_of(alike));
  EXPECT_GT(chunks_a_second(slow_at_first, {.later = alike}), 0.85 * mean);
}

}  // namespace
}  // namespace sluice::transfer
