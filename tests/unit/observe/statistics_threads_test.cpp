// SPDX-License-Identifier: Apache-2.0
// Many threads count while others read and set to zero: nothing is lost, nothing falls, nothing comes back.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "observe/fork.h"
#include "observe/path_counters.h"
#include "observe/statistics.h"
#include "observe/statistics_turn.h"
#include "observe/thread_slot.h"

namespace sluice::observe {
namespace {

using base::Direction;
using base::Outcome;

constexpr Way way{SLUICE_PATH_NVFS, SLUICE_REASON_SOFT_GPU, Direction::read};

class StatisticsOfThreads : public testing::Test {
 protected:
  void SetUp() override {
    set_statistics_level(3);
    start_statistics();
    reset_statistics();
  }
  void TearDown() override {
    reset_statistics();
    set_statistics_level(0);
  }

  // Two that end together, as a group's do.
  static void count_two() {
    const UnderWay under_way(Direction::read, 8192, 2);
    Transfers ended{
        .in_batch = true, .device = 1, .size_bucket = size_bucket(4096), .duration = std::chrono::microseconds(7)};
    Tally tally;
    for (int i = 0; i < 2; ++i) {
      ended.add(Outcome::bytes(4096), i == 0);
      tally.add(Outcome::bytes(4096));
    }
    count_path(way, tally, thread_slot(), &ended);
  }

  static sluice_path_counter_t by_way() {
    for (const auto& entry : path_counters()) {
      if (entry.path == way.path && entry.reason == way.reason) return entry;
    }
    return {};
  }
  static std::uint64_t latencies() {
    std::uint64_t sum = 0;
    for (auto& shard : statistics_region().latencies) {
      for (std::uint64_t& counter : words_of(shard)) sum += value(counter);
    }
    return sum;
  }
};

TEST_F(StatisticsOfThreads, AreExactAtTheEndAndNeverFall) {
  // More than have a shard alone, and each shard and slot is handed on some times.
  constexpr unsigned waves = 4;
  constexpr unsigned threads = 12;
  constexpr unsigned rounds = 2000;
  const sluice_path_counter_t before = by_way();
  std::atomic<bool> done{false};
  std::thread reader([&done] {
    CUfileStatsLevel3_t last{};
    std::uint64_t last_by_way = 0;
    while (!done.load()) {
      CUfileStatsLevel3_t now{};
      read_statistics(now, Vectored::among_all);
      const auto& was = last.detailed;
      EXPECT_GE(now.detailed.basic.read_ops.ok, was.basic.read_ops.ok);
      EXPECT_GE(now.detailed.basic.read_bytes, was.basic.read_bytes);
      EXPECT_GE(now.detailed.basic.batch_processed_ops.ok, was.basic.batch_processed_ops.ok);
      EXPECT_GE(now.detailed.read_size_kb_hist[1], was.read_size_kb_hist[1]);
      EXPECT_GE(now.per_gpu_stats[0].n_total_reads, last.per_gpu_stats[0].n_total_reads);
      const std::uint64_t now_by_way = by_way().reads;
      EXPECT_GE(now_by_way, last_by_way);
      last = now;
      last_by_way = now_by_way;
    }
  });
  for (unsigned wave = 0; wave < waves; ++wave) {
    std::vector<std::thread> counting;
    for (unsigned i = 0; i < threads; ++i) {
      counting.emplace_back([] {
        for (unsigned round = 0; round < rounds; ++round) count_two();
      });
    }
    for (std::thread& thread : counting) thread.join();
  }
  done.store(true);
  reader.join();
  constexpr std::uint64_t all = std::uint64_t{2} * waves * threads * rounds;
  CUfileStatsLevel3_t stats{};
  read_statistics(stats, Vectored::among_all);
  EXPECT_EQ(stats.detailed.basic.read_ops.ok, all);
  EXPECT_EQ(stats.detailed.basic.read_ops.err, 0u);
  EXPECT_EQ(stats.detailed.basic.read_bytes, all * 4096);
  EXPECT_EQ(stats.detailed.basic.read_lat_sum_us, all * 7);
  EXPECT_EQ(stats.detailed.basic.batch_processed_ops.ok, all);
  EXPECT_EQ(stats.detailed.basic.batch_read_bytes, all * 4096);
  EXPECT_EQ(stats.detailed.read_size_kb_hist[1], all);
  EXPECT_EQ(stats.per_gpu_stats[0].n_total_reads, all);
  EXPECT_EQ(stats.per_gpu_stats[0].n_unaligned_reads, all / 2);
  EXPECT_EQ(latencies(), all);
  EXPECT_EQ(by_way().reads - before.reads, all);
  EXPECT_EQ(by_way().read_bytes - before.read_bytes, all * 4096);
  for (auto& flow : statistics_region().flows) EXPECT_EQ(value(flow.under_way[0]) >> 63, 0u);
  std::uint64_t under_way = 0;
  for (auto& flow : statistics_region().flows) under_way += value(flow.under_way[0]);
  EXPECT_EQ(under_way, 0u);
}

// A word that a thread writes back as it was before the reset would bring all of it back.
TEST_F(StatisticsOfThreads, DoNotComeBackAfterAResetMeanwhile) {
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> begun{0}, ended{0};
  };
  std::array<Progress, 4> progress{};
  std::atomic<bool> done{false};
  std::vector<std::thread> counting;
  for (Progress& mine : progress) {
    counting.emplace_back([&mine, &done] {
      while (!done.load()) {
        mine.begun.fetch_add(2);
        count_two();
        mine.ended.fetch_add(2);
      }
    });
  }
  for (int i = 0; i < 300; ++i) {
    std::uint64_t before = 0;
    for (const Progress& each : progress) before += each.ended.load();
    reset_statistics();
    CUfileStatsLevel2_t stats{};
    read_statistics(stats, Vectored::among_all);
    std::uint64_t after = 0;
    for (const Progress& each : progress) after += each.begun.load();
    EXPECT_LE(stats.basic.read_ops.ok, after - before);
    EXPECT_LE(stats.basic.read_bytes, (after - before) * 4096);
    EXPECT_LE(stats.read_size_kb_hist[1], after - before);
  }
  done.store(true);
  for (std::thread& thread : counting) thread.join();
  reset_statistics();
  EXPECT_EQ(latencies(), 0u);
}

TEST(ThreadSlots, AreOneThreadsAloneUntilItEnds) {
  const std::uint32_t mine = thread_slot().own;
  std::uint32_t first = thread_slots;
  std::uint32_t second = thread_slots;
  std::thread([&first] { first = thread_slot().own; }).join();
  std::thread([&second] { second = thread_slot().own; }).join();
  EXPECT_NE(first, mine);
  EXPECT_LT(first, thread_slots);
  EXPECT_EQ(second, first);
}

TEST(ThreadSlots, ThatAreTakenLeaveTheRestToBeShared) {
  std::atomic<bool> done{false};
  std::atomic<unsigned> without{0};
  std::atomic<unsigned> ready{0};
  std::vector<std::thread> living;
  constexpr unsigned more = thread_slots + 4;
  for (unsigned i = 0; i < more; ++i) {
    living.emplace_back([&] {
      if (thread_slot().own >= thread_slots) without.fetch_add(1);
      ready.fetch_add(1);
      done.wait(false);
    });
  }
  while (ready.load() != more) std::this_thread::yield();
  EXPECT_GE(without.load(), 4u);
  constexpr Block shared = block_of({.number = 7, .own = thread_slots}, 6, 8);
  EXPECT_FALSE(shared.is_alone);
  EXPECT_EQ(shared.number, 7u);
  done.store(true);
  done.notify_all();
  for (std::thread& thread : living) thread.join();
}

// The slots of threads that it does not have would be lost to it, and a turn that one of them was in would never end.
TEST_F(StatisticsOfThreads, OfAChildAreFreeOfItsParentsThreads) {
  thread_slot();
  std::atomic<bool> done{false};
  std::atomic<bool> ready{false};
  std::thread other([&] {
    const std::uint32_t slot = thread_slot().own;
    if (slot < alone_shards) turn_flags[slot].busy.store(true);
    ready.store(true);
    ready.notify_all();
    done.wait(false);
    if (slot < alone_shards) turn_flags[slot].busy.store(false);
  });
  ready.wait(false);
  before_fork();
  const pid_t child = ::fork();
  after_fork(child == 0);
  if (child == 0) {
    bool good = true;
    for (const TurnFlag& flag : turn_flags) good = good && !flag.busy.load();
    count_two();
    reset_statistics();
    CUfileStatsLevel1_t stats{};
    count_two();
    read_statistics(stats, Vectored::among_all);
    ::_exit(good && stats.read_ops.ok == 2 ? 0 : 1);
  }
  done.store(true);
  done.notify_all();
  other.join();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace sluice::observe
