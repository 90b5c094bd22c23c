#include "workers/disk_crowd.h"

#include <gtest/gtest.h>

#include <list>

namespace sluice::workers {
namespace {

constexpr std::uint64_t mebibyte = 1 << 20;
constexpr auto a_little_less = DiskCrowd::long_time - std::chrono::nanoseconds(1);

class ADiskCrowd : public ::testing::Test {
 protected:
  void begin(std::uint64_t bytes, unsigned count = 1) {
    for (unsigned i = 0; i < count; ++i) under_way_.emplace_back(crowd_, bytes);
  }
  void end_one() { under_way_.pop_back(); }
  base::Waiting first_waits() const { return under_way_.front().waits(); }

  DiskCrowd crowd_;

 private:
  std::list<DiskCrowd::Member> under_way_;
};

TEST_F(ADiskCrowd, OneAloneLooksAllTheTime) {
  crowd_.learn(10 * DiskCrowd::long_time);
  begin(16 * mebibyte);
  EXPECT_EQ(first_waits(), base::Waiting::busily);
}

TEST_F(ADiskCrowd, SleepsAsSoonAsItIsOne) {
  crowd_.learn(DiskCrowd::long_time);
  begin(mebibyte, DiskCrowd::enough - 1);
  EXPECT_EQ(first_waits(), base::Waiting::busily);
  begin(mebibyte);
  EXPECT_EQ(first_waits(), base::Waiting::asleep);
}

TEST_F(ADiskCrowd, LooksWhereTheDiskIsQuick) {
  begin(mebibyte, DiskCrowd::enough);
  crowd_.learn(DiskCrowd::long_time);
  EXPECT_EQ(first_waits(), base::Waiting::asleep);
  crowd_.learn(a_little_less);
  EXPECT_EQ(first_waits(), base::Waiting::busily);
}

TEST_F(ADiskCrowd, LooksBeforeAnythingIsKnownOfTheDisk) {
  begin(mebibyte, DiskCrowd::enough);
  EXPECT_EQ(first_waits(), base::Waiting::busily);
}

TEST_F(ADiskCrowd, LearnsFromLargeTransfersAlone) {
  crowd_.learn(DiskCrowd::long_time);
  begin(mebibyte, DiskCrowd::enough);
  { const DiskCrowd::Member small(crowd_, 4 << 10); }
  EXPECT_EQ(first_waits(), base::Waiting::asleep);
}

TEST_F(ADiskCrowd, SmallTransfersNeitherSleepNorCount) {
  crowd_.learn(DiskCrowd::long_time);
  begin(DiskCrowd::large - 1, DiskCrowd::enough);
  begin(DiskCrowd::large, DiskCrowd::enough);
  EXPECT_EQ(first_waits(), base::Waiting::busily) << "a small one";
  end_one();
  crowd_.learn(DiskCrowd::long_time);
  EXPECT_EQ(DiskCrowd::Member(crowd_, DiskCrowd::large).waits(), base::Waiting::asleep) << "the fourth large one";
  end_one();
  crowd_.learn(DiskCrowd::long_time);
  EXPECT_EQ(DiskCrowd::Member(crowd_, DiskCrowd::large).waits(), base::Waiting::busily) << "the third";
}

TEST_F(ADiskCrowd, WhoIsLeftLooksAgain) {
  begin(mebibyte, DiskCrowd::enough);
  crowd_.learn(DiskCrowd::long_time);
  ASSERT_EQ(first_waits(), base::Waiting::asleep);
  end_one();
  crowd_.learn(DiskCrowd::long_time);
  EXPECT_EQ(first_waits(), base::Waiting::busily);
}

}  // namespace
}  // namespace sluice::workers
