// SPDX-License-Identifier: Apache-2.0
#include "workers/slow_disk_gauge.h"

#include <gtest/gtest.h>

#include <list>

namespace sluice::workers {
namespace {

constexpr std::uint64_t mebibyte = 1 << 20;
constexpr auto a_little_less = SlowDiskGauge::long_time - std::chrono::nanoseconds(1);

class ASlowDiskGauge : public ::testing::Test {
 protected:
  void begin(std::uint64_t bytes, unsigned count = 1) {
    for (unsigned i = 0; i < count; ++i) under_way_.emplace_back(gauge_, bytes);
  }
  void end_one() { under_way_.pop_back(); }
  base::WaitMode first_waits() const { return under_way_.front().waits(); }

  SlowDiskGauge gauge_;

 private:
  std::list<SlowDiskGauge::Scope> under_way_;
};

TEST_F(ASlowDiskGauge, OneAloneLooksAllTheTime) {
  gauge_.learn(10 * SlowDiskGauge::long_time);
  begin(16 * mebibyte);
  EXPECT_EQ(first_waits(), base::WaitMode::spin);
}

TEST_F(ASlowDiskGauge, SleepsAsSoonAsItIsOne) {
  gauge_.learn(SlowDiskGauge::long_time);
  begin(mebibyte, SlowDiskGauge::enough - 1);
  EXPECT_EQ(first_waits(), base::WaitMode::spin);
  begin(mebibyte);
  EXPECT_EQ(first_waits(), base::WaitMode::sleep);
}

TEST_F(ASlowDiskGauge, LooksWhereTheDiskIsQuick) {
  begin(mebibyte, SlowDiskGauge::enough);
  gauge_.learn(SlowDiskGauge::long_time);
  EXPECT_EQ(first_waits(), base::WaitMode::sleep);
  gauge_.learn(a_little_less);
  EXPECT_EQ(first_waits(), base::WaitMode::spin);
}

TEST_F(ASlowDiskGauge, LooksBeforeAnythingIsKnownOfTheDisk) {
  begin(mebibyte, SlowDiskGauge::enough);
  EXPECT_EQ(first_waits(), base::WaitMode::spin);
}

TEST_F(ASlowDiskGauge, LearnsFromLargeTransfersAlone) {
  gauge_.learn(SlowDiskGauge::long_time);
  begin(mebibyte, SlowDiskGauge::enough);
  { const SlowDiskGauge::Scope small(gauge_, 4 << 10); }
  EXPECT_EQ(first_waits(), base::WaitMode::sleep);
}

TEST_F(ASlowDiskGauge, SmallTransfersNeitherSleepNorCount) {
  gauge_.learn(SlowDiskGauge::long_time);
  begin(SlowDiskGauge::large - 1, SlowDiskGauge::enough);
  begin(SlowDiskGauge::large, SlowDiskGauge::enough);
  EXPECT_EQ(first_waits(), base::WaitMode::spin) << "a small one";
  end_one();
  gauge_.learn(SlowDiskGauge::long_time);
  EXPECT_EQ(SlowDiskGauge::Scope(gauge_, SlowDiskGauge::large).waits(), base::WaitMode::sleep)
      << "the fourth large one";
  end_one();
  gauge_.learn(SlowDiskGauge::long_time);
  EXPECT_EQ(SlowDiskGauge::Scope(gauge_, SlowDiskGauge::large).waits(), base::WaitMode::spin) << "the third";
}

TEST_F(ASlowDiskGauge, WhoIsLeftLooksAgain) {
  begin(mebibyte, SlowDiskGauge::enough);
  gauge_.learn(SlowDiskGauge::long_time);
  ASSERT_EQ(first_waits(), base::WaitMode::sleep);
  end_one();
  gauge_.learn(SlowDiskGauge::long_time);
  EXPECT_EQ(first_waits(), base::WaitMode::spin);
}

}  // namespace
}  // namespace sluice::workers
