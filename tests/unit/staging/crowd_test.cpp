// SPDX-License-Identifier: Apache-2.0
// What many threads that each made a transfer leave behind: no more pinned memory and streams than a few of them need.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/cuda_api.h"
#include "gpu/session.h"
#include "staging/bounce_buffer.h"
#include "support/cuda_driver.h"

namespace sluice::staging {
namespace {

constexpr std::size_t thread_count = 1000;
constexpr std::size_t copied_bytes = 4096;

// The soft GPU has a thread for each stream that was used.
std::size_t threads_of_the_soft_gpu() {
  std::size_t count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream name(thread.path() / "comm");
    std::string text;
    count += std::getline(name, text) && text == "softgpu-queue" ? 1 : 0;
  }
  return count;
}

class Crowd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (support::cuda() == nullptr || gpu::load_driver() == nullptr) GTEST_SKIP() << "no CUDA device";
    context_.emplace(support::primary_context(0));
    ASSERT_EQ(support::cuda()->allocate(&memory_, thread_count * copied_bytes), 0);
    facts_.kind = facts::MemoryKind::device;
    facts_.context = support::primary_context(0);
  }
  void TearDown() override {
    if (memory_ != 0) support::cuda()->release(memory_);
  }

  // A copy to a place of its own by a bounce buffer of its own, as a transfer makes it; with `together`, all threads
  // have theirs at the same time.
  void copy(std::latch& together, std::size_t thread) {
    BounceBuffer bounce = BounceBuffer::take();
    const gpu::Session session(facts_);
    if (!bounce || session.status() != cuda::success) {
      ++failed_;
      together.arrive_and_wait();
      return;
    }
    bounce.pin(session);
    together.arrive_and_wait();
    if (session_copies(bounce, memory_ + thread * copied_bytes) != cuda::success) ++failed_;
  }

  void in_a_crowd() {
    std::latch together(thread_count);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < thread_count; ++i) threads.emplace_back([&, i] { copy(together, i); });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(failed_, 0U);
  }

  std::optional<support::ContextScope> context_;
  support::CudaAddress memory_ = 0;
  facts::BufferFacts facts_{};
  std::atomic<unsigned> failed_{0};

 private:
  cuda::Result session_copies(const BounceBuffer& bounce, support::CudaAddress to) const {
    gpu::Session session(facts_);
    return session.copy_to_device(to, bounce.bytes().first(copied_bytes));
  }
};

TEST_F(Crowd, LeavesAsMuchPinnedMemoryAsAFewOfItsThreadsNeed) {
  for (int round = 0; round < 3; ++round) {
    in_a_crowd();
    const BounceBufferCounts left = bounce_buffer_counts();
    EXPECT_EQ(left.pinned, most_pinned_bounce_buffers);
    EXPECT_LE(left.buffers, most_pinned_bounce_buffers + most_idle_plain_bounce_buffers);
  }
}

TEST_F(Crowd, SharesStreams) {
  in_a_crowd();
  EXPECT_EQ(gpu::own_stream_count(), gpu::most_own_streams);
  if (support::cuda()->soft) {
    // Beside those for threads: the legacy stream of the context.
    EXPECT_LE(threads_of_the_soft_gpu(), gpu::most_own_streams + 1);
  }
}

TEST_F(Crowd, ThreadsOneAfterTheOtherHaveTheSameBufferAndStream) {
  const auto copy_alone = [&] {
    std::latch alone(1);
    std::thread([&] { copy(alone, 0); }).join();
  };
  copy_alone();
  const BounceBufferCounts buffers = bounce_buffer_counts();
  const std::size_t streams = gpu::own_stream_count();
  for (int i = 0; i < 20; ++i) copy_alone();
  EXPECT_EQ(failed_, 0U);
  EXPECT_EQ(bounce_buffer_counts().buffers, buffers.buffers);
  EXPECT_EQ(bounce_buffer_counts().pinned, buffers.pinned);
  EXPECT_EQ(gpu::own_stream_count(), streams);
}

}  // namespace
}  // namespace sluice::staging
