// SPDX-License-Identifier: Apache-2.0
// Who waits for whom: streams among themselves, the default streams, the host.
#include <thread>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Order : public Driver {};

TEST_F(Order, WorkOfAStreamWaitsForWorkBeforeIt) {
  const PinnedBuffer from(4096);
  const DeviceBuffer to(4096);
  std::fill_n(from.data(), 4096, std::uint8_t{1});
  const Stream stream;
  Gate gate(stream.get());
  ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(to.at(), from.data(), 4096, stream.get()));
  // The copy has not begun: what it will read can still be changed.
  std::fill_n(from.data(), 4096, std::uint8_t{2});
  gate.open();
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(std::vector<std::uint8_t>(4096, 2), to.bytes());
}

TEST_F(Order, NonBlockingStreamsDoNotWaitForEachOther) {
  const DeviceBuffer buffer(4096);
  const Stream held;
  const Stream other;
  const Gate gate(held.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, other.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(other.get()));
}

TEST_F(Order, BlockingStreamsDoNotWaitForEachOther) {
  const DeviceBuffer buffer(4096);
  const Stream held(0);
  const Stream other(0);
  const Gate gate(held.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, other.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(other.get()));
}

TEST_F(Order, TheDefaultStreamWaitsForBlockingStreams) {
  const DeviceBuffer buffer(4096);
  const Stream blocking(0);
  Gate gate(blocking.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, nullptr));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(nullptr));
  gate.open();
  EXPECT_EQ(cuda::success, cuStreamSynchronize(nullptr));
}

TEST_F(Order, BlockingStreamsWaitForTheDefaultStream) {
  const DeviceBuffer buffer(4096);
  const Stream blocking(0);
  Gate gate(nullptr);
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, blocking.get()));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(blocking.get()));
  gate.open();
  EXPECT_EQ(cuda::success, cuStreamSynchronize(blocking.get()));
}

TEST_F(Order, TheDefaultStreamJoinsTwoBlockingStreams) {
  const DeviceBuffer buffer(4096);
  const Stream first(0);
  const Stream second(0);
  Gate gate(first.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, nullptr));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 2, 4096, second.get()));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(second.get()));
  gate.open();
  EXPECT_EQ(cuda::success, cuStreamSynchronize(second.get()));
  EXPECT_EQ(std::vector<std::uint8_t>(4096, 2), buffer.bytes());
}

TEST_F(Order, NonBlockingStreamsDoNotWaitForTheDefaultStream) {
  const DeviceBuffer buffer(4096);
  const Stream free;
  const Gate gate(nullptr);
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, free.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(free.get()));
}

TEST_F(Order, TheDefaultStreamDoesNotWaitForNonBlockingStreams) {
  const DeviceBuffer buffer(4096);
  const Stream held;
  const Gate gate(held.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, nullptr));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(nullptr));
}

TEST_F(Order, ThePerThreadStreamWaitsForTheDefaultStream) {
  const DeviceBuffer buffer(4096);
  Gate gate(nullptr);
  ASSERT_EQ(cuda::success, cuMemsetD8Async_ptsz(buffer.at(), 1, 4096, nullptr));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery_ptsz(nullptr));
  gate.open();
  EXPECT_EQ(cuda::success, cuStreamSynchronize_ptsz(nullptr));
}

TEST_F(Order, PerThreadStreamsDoNotWaitForEachOther) {
  const DeviceBuffer buffer(4096);
  const Gate gate(per_thread_stream());
  std::thread([&buffer, this] {
    ASSERT_EQ(cuda::success, cuCtxSetCurrent(context()));
    ASSERT_EQ(cuda::success, cuMemsetD8Async_ptsz(buffer.at(), 1, 4096, nullptr));
    EXPECT_EQ(cuda::success, cuStreamSynchronize_ptsz(nullptr));
  }).join();
}

TEST_F(Order, AStreamWaitsForAnEventOfAnother) {
  const DeviceBuffer buffer(4096);
  const Stream first;
  const Stream second;
  const Event event;
  Gate gate(first.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, first.get()));
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), first.get()));
  ASSERT_EQ(cuda::success, cuStreamWaitEvent(second.get(), event.get(), 0));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 2, 2048, second.get()));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(second.get()));
  gate.open();
  ASSERT_EQ(cuda::success, cuStreamSynchronize(second.get()));
  std::vector<std::uint8_t> expected(4096, 1);
  std::fill_n(expected.begin(), 2048, std::uint8_t{2});
  EXPECT_EQ(expected, buffer.bytes());
}

TEST_F(Order, WaitingMeansTheEventAsItWasRecordedThen) {
  const Stream first;
  const Stream second;
  const Event event;
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), first.get()));
  ASSERT_EQ(cuda::success, cuStreamWaitEvent(second.get(), event.get(), 0));
  const Gate gate(first.get());
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), first.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(second.get())) << "the later recording is none of its business";
}

TEST_F(Order, WaitingForAnEventThatWasNeverRecordedIsNothing) {
  const Stream stream;
  const Event event;
  ASSERT_EQ(cuda::success, cuStreamWaitEvent(stream.get(), event.get(), 0));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
}

TEST_F(Order, AnEventThatIsDestroyedIsStillWaitedFor) {
  const Stream first;
  const Stream second;
  Gate gate(first.get());
  cuda::Event event = nullptr;
  ASSERT_EQ(cuda::success, cuEventCreate(&event, 0));
  ASSERT_EQ(cuda::success, cuEventRecord(event, first.get()));
  ASSERT_EQ(cuda::success, cuStreamWaitEvent(second.get(), event, 0));
  ASSERT_EQ(cuda::success, cuEventDestroy_v2(event));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(second.get()));
  gate.open();
  EXPECT_EQ(cuda::success, cuStreamSynchronize(second.get()));
}

TEST_F(Order, ASynchronousCopyWaitsForTheBlockingStreams) {
  const PinnedBuffer from(4096);
  const DeviceBuffer buffer(4096);
  std::fill_n(from.data(), 4096, std::uint8_t{3});
  const Stream blocking(0);
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 0, 4096, blocking.get()));
    ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(buffer.at(), from.data(), 4096, blocking.get()));
    ASSERT_EQ(std::vector<std::uint8_t>(4096, 3), buffer.bytes()) << "round " << round;
  }
}

TEST_F(Order, SynchronisingTheContextWaitsForEverything) {
  const DeviceBuffer buffer(3 * 4096);
  const Stream blocking(0);
  const Stream free;
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, blocking.get()));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(4096), 2, 4096, free.get()));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(8192), 3, 4096, per_thread_stream()));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  EXPECT_EQ(cuda::success, cuStreamQuery(blocking.get()));
  EXPECT_EQ(cuda::success, cuStreamQuery(free.get()));
  EXPECT_EQ(cuda::success, cuStreamQuery(per_thread_stream()));
}

TEST_F(Order, FreeingWaitsForWorkThatUsesTheMemory) {
  const std::size_t size = std::size_t{16} << 20U;
  const PinnedBuffer back(size);
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAlloc_v2(&pointer, size));
  const Stream stream;
  ASSERT_EQ(cuda::success, cuMemsetD8Async(pointer, 9, size, stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), pointer, size, stream.get()));
  ASSERT_EQ(cuda::success, cuMemFree_v2(pointer));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(9, back.data()[0]);
  EXPECT_EQ(9, back.data()[size - 1]);
}

}  // namespace
}  // namespace sluice::gpu_suite
