// SPDX-License-Identifier: Apache-2.0
// Streams: making them, asking them, putting host functions into them.
#include <set>
#include <thread>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Streams : public Driver {};

unsigned long long id_of(cuda::Stream stream) {
  unsigned long long id = 0;
  EXPECT_EQ(cuda::success, cuStreamGetId(stream, &id));
  return id;
}

TEST_F(Streams, KnowTheirFlags) {
  unsigned flags = 77;
  const Stream blocking(0);
  ASSERT_EQ(cuda::success, cuStreamGetFlags(blocking.get(), &flags));
  EXPECT_EQ(0U, flags);
  const Stream non_blocking(cuda::stream_non_blocking);
  ASSERT_EQ(cuda::success, cuStreamGetFlags(non_blocking.get(), &flags));
  EXPECT_EQ(cuda::stream_non_blocking, flags);
}

TEST_F(Streams, UnknownFlagsAreInvalid) {
  cuda::Stream stream = nullptr;
  EXPECT_EQ(cuda::error_invalid_value, cuStreamCreate(&stream, 0x100));
  EXPECT_EQ(cuda::error_invalid_value, cuStreamCreate(nullptr, 0));
}

TEST_F(Streams, KnowTheirContext) {
  const Stream stream;
  cuda::Context owner = nullptr;
  ASSERT_EQ(cuda::success, cuStreamGetCtx(stream.get(), &owner));
  EXPECT_EQ(context(), owner);
  ASSERT_EQ(cuda::success, cuStreamGetCtx(nullptr, &owner)) << "the default stream is the current context's";
  EXPECT_EQ(context(), owner);
}

TEST_F(Streams, TheDefaultOneNeedsAContext) {
  std::thread([] {
    cuda::Context owner = nullptr;
    EXPECT_EQ(cuda::error_invalid_context, cuStreamGetCtx(nullptr, &owner));
    EXPECT_EQ(cuda::error_invalid_context, cuStreamSynchronize(nullptr));
  }).join();
}

TEST_F(Streams, PrioritiesAreKeptWithinTheirRange) {
  int least = 0;
  int greatest = 0;
  ASSERT_EQ(cuda::success, cuCtxGetStreamPriorityRange(&least, &greatest));
  for (const int wanted : {least, greatest, greatest - 100, least + 100}) {
    cuda::Stream stream = nullptr;
    ASSERT_EQ(cuda::success, cuStreamCreateWithPriority(&stream, cuda::stream_non_blocking, wanted));
    int priority = 77;
    EXPECT_EQ(cuda::success, cuStreamGetPriority(stream, &priority));
    EXPECT_EQ(std::max(greatest, std::min(least, wanted)), priority);
    EXPECT_EQ(cuda::success, cuStreamDestroy_v2(stream));
  }
}

TEST_F(Streams, HaveIdsThatAreNeverUsedAgain) {
  std::set<unsigned long long> ids;
  for (int round = 0; round < 32; ++round) {
    const Stream stream;
    EXPECT_TRUE(ids.insert(id_of(stream.get())).second) << "round " << round;
  }
}

TEST_F(Streams, TheDefaultOneHasOneIdUnderItsTwoNames) {
  EXPECT_EQ(id_of(nullptr), id_of(legacy_stream()));
  EXPECT_NE(id_of(nullptr), id_of(per_thread_stream()));
}

TEST_F(Streams, ThePerThreadOneIsAnotherInEachThread) {
  const unsigned long long mine = id_of(per_thread_stream());
  EXPECT_EQ(mine, id_of(per_thread_stream()));
  unsigned long long same = 0;
  ASSERT_EQ(cuda::success, cuStreamGetId_ptsz(nullptr, &same));
  EXPECT_EQ(mine, same);
  unsigned long long other = 0;
  std::thread([&other, this] {
    ASSERT_EQ(cuda::success, cuCtxSetCurrent(context()));
    other = id_of(per_thread_stream());
  }).join();
  EXPECT_NE(mine, other);
}

TEST_F(Streams, WithNothingToDoAreReady) {
  const Stream stream;
  EXPECT_EQ(cuda::success, cuStreamQuery(stream.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(nullptr));
  EXPECT_EQ(cuda::success, cuStreamQuery(nullptr));
}

TEST_F(Streams, WithSomethingToDoAreNotReady) {
  const Stream stream;
  Gate gate(stream.get());
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(stream.get()));
  gate.open();
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(cuda::success, cuStreamQuery(stream.get()));
}

TEST_F(Streams, MayBeDestroyedBeforeTheirWorkIsDone) {
  const PinnedBuffer from(4096);
  const DeviceBuffer to(4096);
  const auto expected = pattern(4096, 1);
  std::copy(expected.begin(), expected.end(), from.data());
  cuda::Stream stream = nullptr;
  ASSERT_EQ(cuda::success, cuStreamCreate(&stream, cuda::stream_non_blocking));
  Gate gate(stream);
  ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(to.at(), from.data(), 4096, stream));
  EXPECT_EQ(cuda::success, cuStreamDestroy_v2(stream));
  gate.open();
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  EXPECT_EQ(expected, to.bytes());
}

TEST_F(Streams, AreNotCapturingUnlessToldTo) {
  const Stream stream;
  int status = 77;
  ASSERT_EQ(cuda::success, cuStreamIsCapturing(stream.get(), &status));
  EXPECT_EQ(cuda::capture_none, status);
}

TEST_F(Streams, TheCaptureModeOfAThreadCanBeExchanged) {
  int mode = cuda::capture_relaxed;
  ASSERT_EQ(cuda::success, cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cuda::capture_global, mode) << "what a thread begins with";
  ASSERT_EQ(cuda::success, cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cuda::capture_relaxed, mode);
}

class HostFunctions : public Driver {};

TEST_F(HostFunctions, RunInTheOrderOfTheStream) {
  std::vector<int> order;
  struct Call {
    std::vector<int>* order;
    int number;
  };
  std::vector<Call> calls;
  for (int number = 0; number < 10; ++number) calls.push_back({&order, number});
  const Stream stream;
  for (Call& call : calls) {
    ASSERT_EQ(cuda::success, cuLaunchHostFunc(
                                 stream.get(),
                                 [](void* data) {
                                   const auto& made = *static_cast<Call*>(data);
                                   made.order->push_back(made.number);
                                 },
                                 &call));
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ((std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), order);
}

TEST_F(HostFunctions, RunAfterTheCopiesBeforeThem) {
  const DeviceBuffer device(4096);
  const PinnedBuffer host(4096);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(device.at(), 7, 4096));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  struct Seen {
    const std::uint8_t* bytes;
    int value;
  } seen{host.data() + 4095, 0};
  const Stream stream;
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(host.data(), device.at(), 4096, stream.get()));
  ASSERT_EQ(cuda::success, cuLaunchHostFunc(
                               stream.get(),
                               [](void* data) {
                                 auto& made = *static_cast<Seen*>(data);
                                 made.value = *made.bytes;
                               },
                               &seen));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(7, seen.value);
}

TEST_F(HostFunctions, RunOnAThreadOfTheDriver) {
  std::thread::id runner;
  const Stream stream;
  ASSERT_EQ(cuda::success,
            cuLaunchHostFunc(
                stream.get(), [](void* data) { *static_cast<std::thread::id*>(data) = std::this_thread::get_id(); },
                &runner));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_NE(std::this_thread::get_id(), runner);
}

TEST_F(HostFunctions, AsCallbacksLearnTheStreamAndItsState) {
  struct Seen {
    cuda::Stream stream;
    cuda::Result status;
  } seen{nullptr, cuda::error_unknown};
  const Stream stream;
  ASSERT_EQ(cuda::success, cuStreamAddCallback(
                               stream.get(),
                               [](CUstream given, cuda::Result status, void* data) {
                                 *static_cast<Seen*>(data) = {given, status};
                               },
                               &seen, 0));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(stream.get(), seen.stream);
  EXPECT_EQ(cuda::success, seen.status);
}

}  // namespace
}  // namespace sluice::gpu_suite
