// SPDX-License-Identifier: Apache-2.0
// Who of several jobs has the threads of the reserve, on a machine that says it has 24 processors.
#include "workers/reserve.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <set>
#include <thread>

// The library under test is given this one.
extern "C" int sched_getaffinity(pid_t /*process*/, std::size_t size, cpu_set_t* processors) noexcept {
  CPU_ZERO_S(size, processors);
  for (int number = 0; number < 24; ++number) CPU_SET_S(static_cast<std::size_t>(number), size, processors);
  return 0;
}

namespace sluice::workers {
namespace {

constexpr unsigned all = 12;  // 24 readers, less eleven workers and a caller

template <typename Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return condition();
}

// Has a piece for each thread that comes, which lasts until it may end.
class Pieces final : public Job {
 public:
  void run_helper(unsigned number) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      numbers_.insert(number);
    }
    while (!may_end) std::this_thread::yield();
  }
  std::size_t came() {
    const std::lock_guard lock(mutex_);
    return numbers_.size();
  }
  std::atomic<bool> may_end{false};

 private:
  std::mutex mutex_;
  std::set<unsigned> numbers_;
};

class Reserved : public ::testing::Test {
 protected:
  void SetUp() override {
    // What the cgroup grants counts beside the mask, and is not this test's to say.
    if (reserve_count() != all) GTEST_SKIP() << "the cgroup's CPU quota leaves the process fewer than 24 processors";
  }
};

TEST_F(Reserved, ThreadsAllComeToOneJobWithNumbersOfTheirOwn) {
  Pieces job;
  const ReserveScope scope(job, 100);
  EXPECT_TRUE(comes_true([&] { return job.came() == all; })) << job.came();
  job.may_end = true;
}

TEST_F(Reserved, ThreadsComeToTheNextJobWhileTheFirstHasNotEnded) {
  Pieces first;
  Pieces second;
  const ReserveScope scope(first, all);
  ASSERT_TRUE(comes_true([&] { return first.came() == all; })) << first.came();
  const ReserveScope next(second, all);
  EXPECT_EQ(second.came(), 0U) << "they are all at the first one's pieces";
  first.may_end = true;
  EXPECT_TRUE(comes_true([&] { return second.came() == all; })) << second.came();
  second.may_end = true;
}

TEST_F(Reserved, AThirdJobGoesWithoutThem) {
  Pieces first;
  Pieces second;
  Pieces third;
  first.may_end = second.may_end = third.may_end = true;
  {
    const ReserveScope one(first, all);
    const ReserveScope two(second, all);
    const ReserveScope three(third, all);
    EXPECT_TRUE(comes_true([&] { return first.came() > 0; }));
  }
  EXPECT_EQ(third.came(), 0U);
}

}  // namespace
}  // namespace sluice::workers
