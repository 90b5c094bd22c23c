// SPDX-License-Identifier: Apache-2.0
// Buckets, levels, and what is counted when.
#include "observe/statistics.h"

#include <gtest/gtest.h>

#include "observe/path_counters.h"

namespace sluice::observe {
namespace {

using base::Direction;
using base::Outcome;

class Statistics : public testing::Test {
 protected:
  void SetUp() override {
    reset_statistics();
    set_statistics_level(3);
    start_statistics();
  }
  void TearDown() override {
    reset_statistics();
    set_statistics_level(0);
  }
};

TEST(SizeBuckets, DoubleFromFourKibOn) {
  EXPECT_EQ(size_bucket(0), 0u);
  EXPECT_EQ(size_bucket(100), 0u);
  EXPECT_EQ(size_bucket(4095), 0u);
  EXPECT_EQ(size_bucket(4096), 1u);
  EXPECT_EQ(size_bucket(8191), 1u);
  EXPECT_EQ(size_bucket(65536), 5u);
  EXPECT_EQ(size_bucket(1 << 20), 9u);
  EXPECT_EQ(size_bucket(~std::uint64_t{0}), 31u);
}

TEST_F(Statistics, CountFailedTransfersApartFromGoodOnes) {
  for (int i = 0; i < 4; ++i) {
    count_transfer({Direction::read, 4096, true, 0, std::chrono::microseconds(10)}, Outcome::bytes(4096));
  }
  count_transfer({Direction::read, 4096, true, 0, {}}, Outcome::system_error(EIO));
  CUfileStatsLevel2_t stats{};
  read_statistics(stats, Vectored::among_all);
  EXPECT_EQ(stats.basic.read_ops.ok, 4u);
  EXPECT_EQ(stats.basic.read_ops.err, 1u);
  EXPECT_EQ(stats.basic.read_bytes, 4u * 4096);
  EXPECT_EQ(stats.basic.read_lat_sum_us, 40u);
  EXPECT_EQ(stats.basic.read_lat_avg_us, 10u);
  EXPECT_EQ(stats.read_size_kb_hist[1], 4u);
  EXPECT_EQ(stats.basic.write_ops.ok, 0u);
}

TEST_F(Statistics, TellDevicesApartAndLeaveHostMemoryOut) {
  count_transfer({Direction::read, 4096, true, 2, {}}, Outcome::bytes(4096));
  count_transfer({Direction::read, 100, false, 2, {}}, Outcome::bytes(100));
  count_transfer({Direction::write, 4096, true, -1, {}}, Outcome::bytes(4096));
  CUfileStatsLevel3_t stats{};
  read_statistics(stats, Vectored::among_all);
  ASSERT_EQ(stats.num_gpus, 1u);
  EXPECT_EQ(stats.per_gpu_stats[0].n_total_reads, 2u);
  EXPECT_EQ(stats.per_gpu_stats[0].n_unaligned_reads, 1u);
  EXPECT_EQ(stats.per_gpu_stats[0].n_total_writes, 0u);
  EXPECT_EQ(stats.detailed.basic.write_ops.ok, 1u);
}

TEST_F(Statistics, TellWhatTheDriveMovedFromWhatTheCpuCarried) {
  count_transfer({.requested = 4096, .device = 2, .path = SLUICE_PATH_P2PDMA}, Outcome::bytes(4096));
  count_transfer({.requested = 4096, .device = 2, .path = SLUICE_PATH_P2PDMA, .in_batch = true}, Outcome::bytes(4096));
  count_transfer({.requested = 4096, .device = 2, .in_batch = true}, Outcome::bytes(4096));
  count_transfer({.requested = 4096, .device = 2, .in_batch = true}, Outcome::system_error(EIO));
  count(Operation::batch_enqueued, true, 3);
  CUfileStatsLevel3_t stats{};
  read_statistics(stats, Vectored::among_all);
  EXPECT_EQ(stats.per_gpu_stats[0].n_total_reads, 3u);
  EXPECT_EQ(stats.per_gpu_stats[0].n_p2p_reads, 2u);
  EXPECT_EQ(stats.per_gpu_stats[0].n_posix_reads, 1u);
  const CUfileStatsLevel1_t& all = stats.detailed.basic;
  EXPECT_EQ(all.batch_processed_ops.ok, 2u);
  EXPECT_EQ(all.batch_processed_ops.err, 1u);
  EXPECT_EQ(all.batch_posix_processed_ops.ok, 1u);
  EXPECT_EQ(all.batch_posix_processed_ops.err, 1u);
  EXPECT_EQ(all.batch_posix_enqueued_ops.ok, 2u);
  EXPECT_EQ(all.batch_read_bytes, 2u * 4096);
}

TEST_F(Statistics, KeepCountersWhenStoppedAndCountNothingThen) {
  count(Operation::handle_register, true);
  stop_statistics();
  count(Operation::handle_register, true);
  EXPECT_FALSE(statistics_running());
  CUfileStatsLevel1_t stats{};
  read_statistics(stats, Vectored::among_all);
  EXPECT_EQ(stats.hdl_register_ops.ok, 1u);
}

TEST(PathCounters, AddUpByPathAndReason) {
  const auto find = [] {
    for (const auto& entry : path_counters()) {
      if (entry.path == SLUICE_PATH_NVFS && entry.reason == SLUICE_REASON_SOFT_GPU) return entry;
    }
    return sluice_path_counter_t{};
  };
  const auto before = find();
  count_path(SLUICE_PATH_NVFS, SLUICE_REASON_SOFT_GPU, Direction::read, Outcome::bytes(10));
  count_path(SLUICE_PATH_NVFS, SLUICE_REASON_SOFT_GPU, Direction::write, Outcome::system_error(EIO));
  const auto after = find();
  EXPECT_EQ(after.reads - before.reads, 1u);
  EXPECT_EQ(after.read_bytes - before.read_bytes, 10u);
  EXPECT_EQ(after.writes - before.writes, 1u);
  EXPECT_EQ(after.written_bytes, before.written_bytes);
  EXPECT_EQ(after.errors - before.errors, 1u);
}

}  // namespace
}  // namespace sluice::observe
