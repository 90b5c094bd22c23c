// SPDX-License-Identifier: Apache-2.0
#include "staging/steal_gauge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace sluice::staging {
namespace {

using std::chrono::milliseconds;

// A machine of ten processors, which count 1000 ticks a second. Reads take 10 ms each.
class AStealGauge : public ::testing::Test {
 protected:
  void read(int count, std::uint64_t stolen_each) {
    for (int i = 0; i < count; ++i) {
      const StealGauge::Read read = gauge_.begins(now_, [this] { return look(); });
      time_.stolen += stolen_each;
      pass(milliseconds(10));
      gauge_.has_ended(read, now_, [this] { return look(); });
    }
  }
  // The host takes all of the machine meanwhile.
  void wait(milliseconds length) {
    time_.stolen += static_cast<std::uint64_t>(length.count());
    pass(length);
  }
  bool allows() const { return gauge_.allows(now_); }
  int looks() const { return looks_; }
  // How long it allows nothing.
  milliseconds rest() const {
    milliseconds length{};
    while (!gauge_.allows(now_ + length)) ++length;
    return length;
  }
  void has_never_been_stolen_from() { time_.stolen = 0; }
  void has_no_counters() { has_counters_ = false; }

 private:
  void pass(milliseconds length) {
    now_ += length;
    time_.all += static_cast<std::uint64_t>(length.count());
  }
  std::optional<facts::ProcessorTime> look() {
    ++looks_;
    return has_counters_ ? std::optional(time_) : std::nullopt;
  }

  StealGauge gauge_;
  StealGauge::Time now_{std::chrono::hours(1)};
  facts::ProcessorTime time_{.all = 1'000'000, .stolen = 5'000};
  int looks_ = 0;
  bool has_counters_ = true;
};

TEST_F(AStealGauge, AllowsUntilItHasLookedForAWhile) {
  EXPECT_TRUE(allows());
  read(9, 1);
  EXPECT_TRUE(allows());
}

TEST_F(AStealGauge, AllowsNothingForAWhileWhereMuchWasTaken) {
  read(10, 1);
  EXPECT_FALSE(allows());
  EXPECT_EQ(rest(), StealGauge::first_rest);
  wait(StealGauge::first_rest);
  EXPECT_TRUE(allows());
}

TEST_F(AStealGauge, AllowsWhereLittleWasTaken) {
  for (int i = 0; i < 100; ++i) {
    read(1, 1);
    read(99, 0);
  }
  EXPECT_TRUE(allows());
}

TEST_F(AStealGauge, LooksLongerWhereItMayBeChance) {
  read(1, 3);
  read(9, 0);
  EXPECT_TRUE(allows());
  read(1, 1);
  EXPECT_FALSE(allows());
}

TEST_F(AStealGauge, CountsWhatReadsAreTakenAlone) {
  for (int i = 0; i < 100; ++i) {
    read(1, 0);
    wait(milliseconds(1000));
  }
  EXPECT_TRUE(allows()) << "what was taken between reads says nothing of them";
  read(200, 1);
  EXPECT_FALSE(allows());
}

TEST_F(AStealGauge, RestsTwiceAsLongEachTimeInARow) {
  for (auto expected = StealGauge::first_rest; expected <= 2 * StealGauge::longest_rest; expected *= 2) {
    read(11, 1);
    const milliseconds rest = std::min(expected, StealGauge::longest_rest);
    EXPECT_EQ(this->rest(), rest - milliseconds(10)) << "the eleventh ended behind its begin";
    wait(rest);
  }
}

TEST_F(AStealGauge, RestsShortlyAgainOnceAllWasWell) {
  read(10, 1);
  wait(StealGauge::first_rest);
  read(10, 0);
  read(10 + 10, 1);
  EXPECT_EQ(rest(), StealGauge::first_rest);
}

TEST_F(AStealGauge, RestsShortlyAgainALongTimeLater) {
  read(10, 1);
  wait(StealGauge::first_rest + StealGauge::longest_rest + milliseconds(1));
  read(10, 1);
  EXPECT_EQ(rest(), StealGauge::first_rest);
}

TEST_F(AStealGauge, LooksTheMoreSeldomTheLongerAllIsWell) {
  read(10, 0);
  EXPECT_EQ(looks(), 20) << "at the begin and at the end of each";
  read(10, 0);
  EXPECT_EQ(looks(), 20);
  read(10 + 20, 0);
  EXPECT_EQ(looks(), 40);
  read(10 + 40 + 10 + 80 + 10 + 100, 0);
  EXPECT_EQ(looks(), 100);
}

TEST_F(AStealGauge, LooksSeldomWhereNothingWasEverTaken) {
  has_never_been_stolen_from();
  read(10 + 100, 0);
  EXPECT_EQ(looks(), 20);
}

TEST_F(AStealGauge, AllowsWhereNothingTells) {
  has_no_counters();
  read(100, 1);
  EXPECT_TRUE(allows());
}

TEST_F(AStealGauge, AllowsWhereTheCounterWentBack) {
  read(100, ~std::uint64_t{0});
  EXPECT_TRUE(allows());
}

}  // namespace
}  // namespace sluice::staging
