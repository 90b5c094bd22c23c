// SPDX-License-Identifier: Apache-2.0
// The rows that tasks of streams stand in.
#include "stream/channel/task_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace sluice::stream {
namespace {

struct Numbered : Linked<Numbered> {
  explicit Numbered(int its_number = 0) : number(its_number) {}
  int number;
};

std::vector<int> numbers_of(TaskQueue<Numbered>& queue) {
  std::vector<int> numbers;
  for (; !queue.empty(); queue.pop_front()) numbers.push_back(queue.front().number);
  return numbers;
}

class Row : public ::testing::Test {
 protected:
  Row() {
    for (int i = 0; i < 4; ++i) tasks[i].number = i;
    for (Numbered& task : tasks) queue.push_back(task);
  }
  std::array<Numbered, 4> tasks;
  TaskQueue<Numbered> queue;
};

TEST_F(Row, KeepsTheOrder) {
  EXPECT_EQ(numbers_of(queue), (std::vector{0, 1, 2, 3}));
  EXPECT_TRUE(queue.empty());
}

TEST_F(Row, LosesOneOfTheMiddle) {
  queue.erase(tasks[1]);
  EXPECT_EQ(numbers_of(queue), (std::vector{0, 2, 3}));
}

TEST_F(Row, GoesOnBehindALastOneThatWasTakenOut) {
  queue.erase(tasks[3]);
  Numbered another(9);
  queue.push_back(another);
  EXPECT_EQ(numbers_of(queue), (std::vector{0, 1, 2, 9}));
}

TEST_F(Row, LosesItsFirst) {
  queue.erase(tasks[0]);
  EXPECT_EQ(numbers_of(queue), (std::vector{1, 2, 3}));
}

TEST_F(Row, MindsNoStranger) {
  queue.erase(Numbered(7));
  EXPECT_EQ(queue.count_if([](const Numbered*) { return true; }), 4U);
}

TEST_F(Row, IsUsedAgainWhenItWasEmptied) {
  while (!queue.empty()) queue.pop_front();
  queue.push_back(tasks[2]);
  EXPECT_EQ(numbers_of(queue), std::vector{2});
  queue.push_back(tasks[1]);
  queue.erase(tasks[1]);
  EXPECT_TRUE(queue.empty());
}

TEST(Arrivals, ComeOutInTheOrderInWhichTheyWentIn) {
  std::array<Numbered, 3> tasks{Numbered(0), Numbered(1), Numbered(2)};
  Arrivals<Numbered> arrivals;
  EXPECT_TRUE(arrivals.empty());
  for (Numbered& task : tasks) arrivals.put(task);
  TaskQueue<Numbered> queue;
  arrivals.take_all([&](Numbered& task) { queue.push_back(task); });
  EXPECT_TRUE(arrivals.empty());
  EXPECT_EQ(numbers_of(queue), (std::vector{0, 1, 2}));
}

TEST(Arrivals, OfManyThreadsAreAllTakenAndThoseOfOneInOrder) {
  constexpr int threads = 4;
  constexpr int each = 20000;
  std::vector<Numbered> tasks;
  for (int i = 0; i < threads * each; ++i) tasks.emplace_back(i);
  Arrivals<Numbered> arrivals;
  std::atomic<int> at_it{threads};
  std::vector<std::thread> putting;
  for (int thread = 0; thread < threads; ++thread) {
    putting.emplace_back([&, thread] {
      for (int i = 0; i < each; ++i) arrivals.put(tasks[static_cast<std::size_t>(thread * each + i)]);
      --at_it;
    });
  }
  std::array<int, threads> next{};
  bool over = false;
  while (!over) {
    over = at_it == 0;  // what was put before that is seen below
    arrivals.take_all([&](Numbered& task) {
      int& expected = next[static_cast<std::size_t>(task.number / each)];
      EXPECT_EQ(task.number % each, expected);
      expected = task.number % each + 1;
    });
  }
  for (std::thread& one : putting) one.join();
  for (const int taken : next) EXPECT_EQ(taken, each);
}

}  // namespace
}  // namespace sluice::stream
