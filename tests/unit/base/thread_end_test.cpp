// SPDX-License-Identifier: Apache-2.0
// What is done when threads end.
#include "base/thread_end.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sluice::base {
namespace {

std::atomic<int> ended{0};
constinit ThreadEnd thread_end{[](void*) { ++ended; }};

TEST(ThreadEnd, IsNoticedInThreadsThatArmedItOnceEach) {
  ended = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([i] {
      if (i % 2 == 0) thread_end.arm();
      if (i % 4 == 0) thread_end.arm();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 8);
}

TEST(ThreadEnd, ComesAfterTheThreadsOwnObjects) {
  ended = 0;
  static std::atomic<int> seen{-1};
  struct Looks {
    ~Looks() { seen = ended.load(); }
  };
  std::thread([] {
    thread_end.arm();
    thread_local Looks looks;
    static_cast<void>(looks);
  }).join();
  EXPECT_EQ(seen, 0) << "it was done while the thread still had objects";
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace sluice::base
