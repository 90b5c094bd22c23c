// SPDX-License-Identifier: Apache-2.0
// Numbers of threads.
#include "base/thread_number.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <set>
#include <thread>

namespace sluice::base {
namespace {

TEST(ThreadNumber, StaysTheSameWithinAThread) {
  EXPECT_EQ(thread_number(), thread_number());
}

TEST(ThreadNumber, DiffersBetweenThreads) {
  std::array<std::size_t, 8> numbers{};
  std::array<std::thread, 8> threads;
  for (std::size_t index = 0; index < threads.size(); ++index) {
    threads[index] = std::thread([&numbers, index] { numbers[index] = thread_number(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::size_t>(numbers.begin(), numbers.end()).size(), numbers.size());
  EXPECT_FALSE(std::set<std::size_t>(numbers.begin(), numbers.end()).contains(thread_number()));
}

}  // namespace
}  // namespace sluice::base
