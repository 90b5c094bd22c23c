// SPDX-License-Identifier: Apache-2.0
// Streams of our own: which are shared, and with whom; and what may be had while streams of the program's wait.
#include "gpu/own_streams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/loading.h"
#include "gpu/stream_waits.h"
#include "support/cuda_driver.h"
#include "support/stream_gate.h"

namespace sluice::gpu {
namespace {

class OwnStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    if (support::cuda() == nullptr || attach_driver() == nullptr) GTEST_SKIP() << "no CUDA device";
    ASSERT_EQ(support::cuda()->context_create(&context_, 0, 0), 0);
    there_ = current_kernels();
    ASSERT_NE(there_, nullptr);
    if (there_->context_id == 0) GTEST_SKIP() << "contexts have no ids";
  }
  void TearDown() override {
    if (context_ != nullptr) support::cuda()->context_destroy(context_);
  }

  cuda::Result take(StreamWish wish, OwnStream& own, StreamKind kind = StreamKind::usual) const {
    own = {there_->context, there_->context_id, kind};
    return take_stream(own, wish);
  }
  cuda::Stream taken(StreamWish wish, StreamKind kind = StreamKind::usual) const {
    OwnStream own;
    EXPECT_EQ(take(wish, own, kind), cuda::success);
    return own.stream;
  }
  std::size_t make_all_ahead() const {
    std::size_t count = 0;
    while (make_stream_ahead(*there_)) ++count;
    return count;
  }

  support::CudaContext context_ = nullptr;
  Kernels* there_ = nullptr;
};

TEST_F(OwnStreams, AreMadeForEachUserWhereNoneWaits) {
  const std::set<cuda::Stream> all{taken(StreamWish::shared), taken(StreamWish::shared), taken(StreamWish::alone),
                                   taken(StreamWish::spare), taken(StreamWish::shared, StreamKind::urgent)};
  EXPECT_EQ(all.size(), 5U);
}

TEST_F(OwnStreams, ThatAreGivenBackServeTheNext) {
  OwnStream own;
  ASSERT_EQ(take(StreamWish::shared, own), cuda::success);
  give_back_stream(own);
  EXPECT_EQ(taken(StreamWish::shared), own.stream);
}

TEST_F(OwnStreams, AreSharedOrDoneWithoutWhileAStreamWaits) {
  const cuda::Stream shared = taken(StreamWish::shared);
  taken(StreamWish::alone);
  StreamWait wait;
  wait.begin(there_->stream_waits);
  OwnStream own;
  ASSERT_EQ(take(StreamWish::shared, own), cuda::success);
  EXPECT_EQ(own.stream, shared);
  EXPECT_TRUE(own.is_makeshift);
  EXPECT_FALSE(may_do_better(own));
  OwnStream urgent;
  ASSERT_EQ(take(StreamWish::shared, urgent, StreamKind::urgent), cuda::success);
  EXPECT_EQ(urgent.stream, shared) << "one of another kind, but none with kernels in it";
  EXPECT_EQ(take(StreamWish::alone, own), cuda::error_not_ready);
  EXPECT_EQ(take(StreamWish::spare, own), cuda::error_not_ready);
  wait.end();
  EXPECT_TRUE(may_do_better(urgent));
  EXPECT_NE(taken(StreamWish::shared), shared);
}

TEST_F(OwnStreams, MadeAheadAreKeptForThoseThatShareNone) {
  EXPECT_EQ(make_all_ahead(), 24U);
  StreamWait wait;
  wait.begin(there_->stream_waits);
  std::set<cuda::Stream> shared;
  for (int i = 0; i < 10; ++i) shared.insert(taken(StreamWish::shared));
  EXPECT_EQ(shared.size(), 4U);
  OwnStream own;
  EXPECT_EQ(take(StreamWish::spare, own), cuda::error_not_ready);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(shared.insert(taken(StreamWish::alone)).second);
  EXPECT_EQ(take(StreamWish::alone, own), cuda::error_not_ready);
  EXPECT_FALSE(make_stream_ahead(*there_));
  wait.end();
  EXPECT_EQ(make_all_ahead(), 12U);
}

// A driver that waits with some waits with none of so many.
TEST_F(OwnStreams, LeaveTheProgramRoomForAsManyAsWithoutThem) {
  make_all_ahead();
  {
    StreamRoom room(*there_);
    std::size_t grown = 0;
    while (room.grow()) ++grown;
    EXPECT_EQ(grown, 35U);
  }
  using Wait = cuda::Result(cuda::Stream, cuda::DevicePtr, std::uint32_t, unsigned);
  CUstream standing = nullptr;
  ASSERT_EQ(support::cuda()->stream_create(&standing, 1), 0);
  void* word = nullptr;
  ASSERT_EQ(support::cuda()->allocate_host(&word, sizeof(std::uint32_t), 0), 0);
  std::atomic_ref(*static_cast<std::uint32_t*>(word)).store(0);
  ASSERT_EQ(support::cuda_function<Wait>("cuStreamWaitValue32_v2")(reinterpret_cast<cuda::Stream>(standing),
                                                                   reinterpret_cast<cuda::DevicePtr>(word), 1, 0),
            cuda::success);
  for (int i = 1; i < 35; ++i) {
    CUstream one = nullptr;
    EXPECT_EQ(support::cuda()->stream_create(&one, 1), 0);
  }
  std::atomic_ref(*static_cast<std::uint32_t*>(word)).store(1);
  EXPECT_EQ(support::cuda()->stream_synchronize(standing), 0);
}

TEST_F(OwnStreams, AreMadeWhereThereIsNothingToShare) {
  StreamWait wait;
  wait.begin(there_->stream_waits);
  EXPECT_NE(taken(StreamWish::shared), nullptr);
}

TEST(StreamWaits, BeginWhenNoStreamComesAnyMoreOrAfterAWhile) {
  StreamWaits waits;
  std::optional<StreamWaits::Coming> coming(std::in_place, waits);
  std::atomic<bool> gone{false};
  std::thread caller([&] {
    StreamWait wait;
    const auto begun = std::chrono::steady_clock::now();
    wait.begin(waits);
    EXPECT_TRUE(gone || std::chrono::steady_clock::now() - begun >= std::chrono::milliseconds(100));
  });
  while (!waits.any()) std::this_thread::yield();
  gone = true;
  coming.reset();
  caller.join();
  EXPECT_FALSE(waits.any());
}

TEST(StreamWaits, AreCountedFromWhereverTheyEnd) {
  StreamWaits waits;
  std::vector<StreamWait> many(40);
  for (StreamWait& wait : many) wait.begin(waits);
  StreamWait last = std::move(many.back());
  std::thread([&] {
    for (StreamWait& wait : many) wait.end();
  }).join();
  EXPECT_TRUE(waits.any());
  StreamWait other;
  other.begin(waits);
  last = std::move(other);
  EXPECT_TRUE(waits.any());
  last.end();
  EXPECT_FALSE(waits.any());
}

}  // namespace
}  // namespace sluice::gpu
