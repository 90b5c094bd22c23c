// SPDX-License-Identifier: Apache-2.0
// Latencies, what is under way, and what is told of devices, as others see them.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "gpu/introduce.h"
#include "observe/statistics.h"
#include "observe/statistics_latency.h"
#include "observe/statistics_words.h"

namespace sluice::observe {
namespace {

using base::Direction;
using base::Outcome;

TEST(LatencyPlaces, AreNeverWiderThanTwelvePercentAndLeaveNoGap) {
  for (unsigned place = 1; place + 1 < SLUICE_STATS_LATENCY_COUNT; ++place) {
    const std::uint64_t begin = sluice_stats_latency_begin(place);
    const std::uint64_t end = sluice_stats_latency_begin(place + 1);
    EXPECT_LE(static_cast<double>(end - begin), 0.12 * static_cast<double>(begin)) << place;
    EXPECT_EQ(latency_place(begin), place);
    EXPECT_EQ(latency_place(begin - 1), place - 1);
    EXPECT_EQ(latency_place(end - 1), place);
  }
  EXPECT_EQ(latency_place(0), 0U);
  EXPECT_EQ(latency_place(~std::uint64_t{0}), SLUICE_STATS_LATENCY_COUNT - 1U);
}

TEST(LatencyPlaces, HaveEveryPowerOfTwoAndItsHalfWayAsABegin) {
  EXPECT_EQ(sluice_stats_latency_begin(1), 512U);
  EXPECT_EQ(sluice_stats_latency_begin(11), 1024U);
  EXPECT_EQ(sluice_stats_latency_begin(16), 1536U);
  EXPECT_EQ(sluice_stats_latency_begin(SLUICE_STATS_LATENCY_COUNT - 1), std::uint64_t{1} << 34);
}

TEST(SizeClasses, BeginWhereTheirSmallestSizeSays) {
  for (unsigned size_class = 1; size_class < SLUICE_STATS_CLASS_COUNT; ++size_class) {
    const std::uint64_t begin = sluice_stats_class_begin(size_class);
    EXPECT_EQ(class_of(size_bucket(begin)), size_class);
    EXPECT_EQ(class_of(size_bucket(begin - 1)), size_class - 1);
  }
  EXPECT_EQ(sluice_stats_class_begin(SLUICE_STATS_CLASS_COUNT - 1), 16U << 20);
}

class Latencies : public testing::Test {
 protected:
  void SetUp() override {
    set_statistics_level(1);
    start_statistics();
    reset_statistics();
  }
  void TearDown() override {
    reset_statistics();
    set_statistics_level(0);
  }

  static std::uint64_t count(Direction direction, sluice_path_t path, std::size_t size_class, std::size_t place) {
    std::uint64_t sum = 0;
    for (auto& shard : statistics_region().latencies) {
      sum += value(shard.counts[static_cast<std::size_t>(direction)][path][size_class][place]);
    }
    return sum;
  }
  static std::uint64_t all() {
    std::uint64_t sum = 0;
    for (auto& shard : statistics_region().latencies) {
      for (std::uint64_t& counter : words_of(shard)) sum += value(counter);
    }
    return sum;
  }
  static std::uint64_t under_way(Direction direction) {
    std::uint64_t sum = 0;
    for (auto& flow : statistics_region().flows) sum += value(flow.under_way[static_cast<std::size_t>(direction)]);
    return sum;
  }
};

TEST_F(Latencies, TellDirectionsPathsAndSizesApart) {
  const std::chrono::microseconds ten(10);
  const std::size_t place = latency_place(10'000);
  count_transfer({.direction = Direction::read, .requested = 4096, .duration = ten}, Outcome::bytes(4096));
  count_transfer({.direction = Direction::read, .requested = 4095, .duration = ten}, Outcome::bytes(4095));
  count_transfer({.direction = Direction::write, .requested = 4096, .duration = ten}, Outcome::bytes(4096));
  count_transfer({.direction = Direction::read, .requested = 4096, .duration = ten, .path = SLUICE_PATH_P2PDMA},
                 Outcome::bytes(4096));
  EXPECT_EQ(count(Direction::read, SLUICE_PATH_POSIX, 1, place), 1U);
  EXPECT_EQ(count(Direction::read, SLUICE_PATH_POSIX, 0, place), 1U);
  EXPECT_EQ(count(Direction::write, SLUICE_PATH_POSIX, 1, place), 1U);
  EXPECT_EQ(count(Direction::read, SLUICE_PATH_P2PDMA, 1, place), 1U);
  EXPECT_EQ(all(), 4U);
}

TEST_F(Latencies, AreThoseOfGoodTransfersAndVectoredCalls) {
  count_transfer({.requested = 4096}, Outcome::system_error(EIO));
  EXPECT_EQ(all(), 0U);
  VectoredTransfer vectored{.direction = Direction::write, .requested = 1 << 20};
  vectored.add(-1, 1 << 20, SLUICE_PATH_USERSPACE, true);
  count_vectored(vectored, Outcome::bytes(1 << 20));
  EXPECT_EQ(count(Direction::write, SLUICE_PATH_USERSPACE, 5, 0), 1U);
}

TEST_F(Latencies, AreZeroAfterAReset) {
  count_transfer({.requested = 4096}, Outcome::bytes(4096));
  const std::uint64_t resets = value(statistics_region().head.resets);
  reset_statistics();
  EXPECT_EQ(all(), 0U);
  EXPECT_EQ(value(statistics_region().head.resets), resets + 1);
}

TEST_F(Latencies, WhatIsUnderWayIsThereUntilItEndsAlsoAcrossAResetAndAStop) {
  ASSERT_EQ(under_way(Direction::read), 0U);
  {
    const UnderWay one(Direction::read, 4096);
    const UnderWay group(Direction::read, 8192, 2);
    EXPECT_EQ(under_way(Direction::read) >> 40, 3U);
    EXPECT_EQ(under_way(Direction::read) & 0xffffffffff, 12288U);
    EXPECT_EQ(under_way(Direction::write), 0U);
    reset_statistics();
    EXPECT_EQ(under_way(Direction::read) >> 40, 3U);
    stop_statistics();
  }
  EXPECT_EQ(under_way(Direction::read), 0U);
  const UnderWay uncounted(Direction::read, 4096);
  EXPECT_EQ(under_way(Direction::read), 0U);
  start_statistics();
}

TEST(RegisteredBytes, OfHostMemoryAreCountedApart) {
  const std::uint64_t before = value(statistics_region().head.registered_host_bytes);
  count_registered_bytes(-1, 4096);
  EXPECT_EQ(value(statistics_region().head.registered_host_bytes), before + 4096);
  count_registered_bytes(-1, -4096);
  EXPECT_EQ(value(statistics_region().head.registered_host_bytes), before);
}

TEST(PciNumbers, AreMadeOfAnAddressOrSayThatThereIsNone) {
  EXPECT_EQ(gpu::pci_number("0000:3B:00.0"), SLUICE_STATS_PCI_KNOWN | 0x3b00U);
  EXPECT_EQ(gpu::pci_number("10000:01:1f.7"), SLUICE_STATS_PCI_KNOWN | (0x10000ULL << 16) | 0x1ffU);
  for (const char* wrong : {"", "0000", "0000:3b:00", "0000:3b:00.8", "0000:3b:00.0x", "0000:100:00.0", "x"}) {
    EXPECT_EQ(gpu::pci_number(wrong) & SLUICE_STATS_PCI_KNOWN, 0U) << wrong;
  }
}

}  // namespace
}  // namespace sluice::observe
