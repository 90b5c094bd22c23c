// SPDX-License-Identifier: Apache-2.0
// Capturing streams into graphs, and replaying them.
#include <thread>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

// A graph that can be launched; destroyed with the scope.
class Replay {
 public:
  explicit Replay(cuda::Graph graph) : graph_(graph) {
    EXPECT_EQ(cuda::success, cuGraphInstantiateWithFlags(&exec_, graph_, 0));
  }
  ~Replay() {
    EXPECT_EQ(cuda::success, cuGraphExecDestroy(exec_));
    EXPECT_EQ(cuda::success, cuGraphDestroy(graph_));
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  void run(cuda::Stream stream) const {
    EXPECT_EQ(cuda::success, cuGraphLaunch(exec_, stream));
    EXPECT_EQ(cuda::success, cuStreamSynchronize(stream));
  }

 private:
  cuda::Graph graph_;
  cuda::GraphExec exec_ = nullptr;
};

class Graphs : public Driver {
 protected:
  static void begin(cuda::Stream stream, int mode = cuda::capture_thread_local) {
    ASSERT_EQ(cuda::success, cuStreamBeginCapture_v2(stream, mode));
  }
  static cuda::Graph end(cuda::Stream stream) {
    cuda::Graph graph = nullptr;
    EXPECT_EQ(cuda::success, cuStreamEndCapture(stream, &graph));
    return graph;
  }
  // Ends a capture that was broken, with this answer.
  static void end_broken(cuda::Stream stream, cuda::Result expected = cuda::error_stream_capture_invalidated) {
    cuda::Graph graph = nullptr;
    EXPECT_EQ(expected, cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(nullptr, graph);
    int status = -1;
    EXPECT_EQ(cuda::success, cuStreamIsCapturing(stream, &status));
    EXPECT_EQ(cuda::capture_none, status);
  }
};

TEST_F(Graphs, ACaptureDoesNothingUntilItIsReplayed) {
  const PinnedBuffer from(4096);
  const DeviceBuffer to(4096);
  std::fill_n(from.data(), 4096, std::uint8_t{1});
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(to.at(), 0, 4096));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  const Stream stream;
  begin(stream.get());
  ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(to.at(), from.data(), 4096, stream.get()));
  const Replay replay(end(stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(std::vector<std::uint8_t>(4096, 0), to.bytes());
  replay.run(stream.get());
  EXPECT_EQ(std::vector<std::uint8_t>(4096, 1), to.bytes());
  std::fill_n(from.data(), 4096, std::uint8_t{2});
  replay.run(stream.get());
  EXPECT_EQ(std::vector<std::uint8_t>(4096, 2), to.bytes()) << "each replay reads anew";
}

TEST_F(Graphs, AStreamKnowsThatItIsCaptured) {
  const Stream stream;
  int status = -1;
  begin(stream.get());
  ASSERT_EQ(cuda::success, cuStreamIsCapturing(stream.get(), &status));
  EXPECT_EQ(cuda::capture_active, status);
  EXPECT_EQ(cuda::success, cuGraphDestroy(end(stream.get())));
  ASSERT_EQ(cuda::success, cuStreamIsCapturing(stream.get(), &status));
  EXPECT_EQ(cuda::capture_none, status);
}

TEST_F(Graphs, KnowHowManyNodesTheyHave) {
  const DeviceBuffer buffer(4096);
  const Stream stream;
  begin(stream.get());
  for (int node = 0; node < 3; ++node) {
    ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, stream.get()));
  }
  const cuda::Graph graph = end(stream.get());
  std::size_t count = 0;
  ASSERT_EQ(cuda::success, cuGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(3U, count);
  EXPECT_EQ(cuda::success, cuGraphDestroy(graph));
}

TEST_F(Graphs, ReplayHostFunctionsInOrder) {
  const DeviceBuffer device(4096);
  const PinnedBuffer host(4096);
  struct Seen {
    const std::uint8_t* bytes;
    std::vector<int> values;
  } seen{host.data(), {}};
  const Stream stream;
  begin(stream.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(device.at(), 9, 4096, stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(host.data(), device.at(), 4096, stream.get()));
  ASSERT_EQ(cuda::success, cuLaunchHostFunc(
                               stream.get(),
                               [](void* data) {
                                 auto& told = *static_cast<Seen*>(data);
                                 told.values.push_back(told.bytes[4095]);
                               },
                               &seen));
  const Replay replay(end(stream.get()));
  replay.run(stream.get());
  replay.run(stream.get());
  EXPECT_EQ((std::vector<int>{9, 9}), seen.values);
}

TEST_F(Graphs, ReplayMemoryOperations) {
  const PinnedBuffer words(64);
  std::fill_n(words.data(), 64, std::uint8_t{0});
  const Stream stream;
  begin(stream.get());
  ASSERT_EQ(cuda::success, cuStreamWriteValue32_v2(stream.get(), words.at(), 7, 0));
  ASSERT_EQ(cuda::success, cuStreamWaitValue32_v2(stream.get(), words.at(), 7, cuda::wait_value_eq));
  const Replay replay(end(stream.get()));
  EXPECT_EQ(0, words.data()[0]);
  replay.run(stream.get());
  EXPECT_EQ(7, words.data()[0]);
}

TEST_F(Graphs, ReplayMemoryOperationsOf64Bits) {
  const PinnedBuffer words(64);
  std::fill_n(words.data(), 64, std::uint8_t{0});
  const Stream stream;
  begin(stream.get());
  ASSERT_EQ(cuda::success, cuStreamWriteValue64_v2(stream.get(), words.at(8), std::uint64_t{7} << 56U, 0));
  ASSERT_EQ(cuda::success,
            cuStreamWaitValue64_v2(stream.get(), words.at(8), std::uint64_t{7} << 56U, cuda::wait_value_and));
  const Replay replay(end(stream.get()));
  replay.run(stream.get());
  EXPECT_EQ(7, words.data()[15]);
}

// Two branches between a fork and a join; each replay adds them up anew.
TEST_F(Graphs, JoinTheirBranchesBeforeWhatComesBehind) {
  constexpr std::size_t half = 4096;
  const DeviceBuffer device(2 * half);
  const PinnedBuffer from(2 * half);
  const PinnedBuffer back(2 * half);
  const Stream first;
  const Stream second;
  const Event forked;
  const Event joined;
  begin(first.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(device.at(), 0, 2 * half, first.get()));
  ASSERT_EQ(cuda::success, cuEventRecord(forked.get(), first.get()));
  ASSERT_EQ(cuda::success, cuStreamWaitEvent(second.get(), forked.get(), 0));
  for (std::size_t piece = 0; piece < half; piece += half / 8) {
    ASSERT_EQ(cuda::success,
              cuMemcpyHtoDAsync_v2(device.at(half + piece), from.data() + half + piece, half / 8, second.get()));
    ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(device.at(piece), from.data() + piece, half / 8, first.get()));
  }
  ASSERT_EQ(cuda::success, cuEventRecord(joined.get(), second.get()));
  ASSERT_EQ(cuda::success, cuStreamWaitEvent(first.get(), joined.get(), 0));
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), device.at(), 2 * half, first.get()));
  const Replay replay(end(first.get()));
  for (unsigned round = 0; round < 20; ++round) {
    const auto bytes = pattern(2 * half, round);
    std::copy(bytes.begin(), bytes.end(), from.data());
    replay.run(first.get());
    ASSERT_EQ(bytes, std::vector<std::uint8_t>(back.data(), back.data() + 2 * half)) << "replay " << round;
  }
}

TEST_F(Graphs, AreNeverReplayedTwiceAtATime) {
  const DeviceBuffer buffer(4096);
  const Stream captured;
  begin(captured.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, captured.get()));
  cuda::Graph graph = end(captured.get());
  cuda::GraphExec exec = nullptr;
  ASSERT_EQ(cuda::success, cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_EQ(cuda::success, cuGraphLaunch(exec, captured.get()));  // what it loads, it loads now
  ASSERT_EQ(cuda::success, cuStreamSynchronize(captured.get()));
  const Stream first;
  const Stream second;
  {
    Gate gate(first.get());
    ASSERT_EQ(cuda::success, cuGraphLaunch(exec, first.get()));
    ASSERT_EQ(cuda::success, cuGraphLaunch(exec, second.get()));
    EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(second.get())) << "the replay before it has not begun";
  }
  EXPECT_EQ(cuda::success, cuStreamSynchronize(second.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(first.get()));
  EXPECT_EQ(cuda::success, cuGraphExecDestroy(exec));
  EXPECT_EQ(cuda::success, cuGraphDestroy(graph));
}

TEST_F(Graphs, TakeInAStreamThatWaitsForACapturedEvent) {
  const DeviceBuffer buffer(4096);
  const Stream first;
  const Stream second;
  const Event forked;
  const Event joined;
  begin(first.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, first.get()));
  ASSERT_EQ(cuda::success, cuEventRecord(forked.get(), first.get()));
  ASSERT_EQ(cuda::success, cuStreamWaitEvent(second.get(), forked.get(), 0));
  int status = -1;
  ASSERT_EQ(cuda::success, cuStreamIsCapturing(second.get(), &status));
  EXPECT_EQ(cuda::capture_active, status);
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 2, 2048, second.get()));
  ASSERT_EQ(cuda::success, cuEventRecord(joined.get(), second.get()));
  ASSERT_EQ(cuda::success, cuStreamWaitEvent(first.get(), joined.get(), 0));
  const Replay replay(end(first.get()));
  replay.run(first.get());
  std::vector<std::uint8_t> expected(4096, 1);
  std::fill_n(expected.begin(), 2048, std::uint8_t{2});
  EXPECT_EQ(expected, buffer.bytes());
}

TEST_F(Graphs, AStreamThatDoesNotComeBackBreaksTheCapture) {
  const DeviceBuffer buffer(4096);
  const Stream first;
  const Stream second;
  const Event forked;
  begin(first.get());
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, first.get()));
  ASSERT_EQ(cuda::success, cuEventRecord(forked.get(), first.get()));
  ASSERT_EQ(cuda::success, cuStreamWaitEvent(second.get(), forked.get(), 0));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 2, 2048, second.get()));
  end_broken(first.get(), cuda::error_stream_capture_unjoined);
}

TEST_F(Graphs, WaitingForACapturedStreamBreaksTheCapture) {
  const Stream stream;
  begin(stream.get());
  EXPECT_EQ(cuda::error_stream_capture_unsupported, cuStreamSynchronize(stream.get()));
  end_broken(stream.get());
}

TEST_F(Graphs, AskingACapturedStreamBreaksTheCapture) {
  const Stream stream;
  begin(stream.get());
  EXPECT_EQ(cuda::error_stream_capture_unsupported, cuStreamQuery(stream.get()));
  end_broken(stream.get());
}

TEST_F(Graphs, AskingForTheNumberOfACapturedStreamBreaksTheCapture) {
  const Stream stream;
  unsigned long long id = 0;
  begin(stream.get());
  EXPECT_EQ(cuda::error_stream_capture_unsupported, cuStreamGetId(stream.get(), &id));
  end_broken(stream.get());
}

TEST_F(Graphs, ACapturedEventCannotBeWaitedForByTheHost) {
  const Stream stream;
  const Event event;
  begin(stream.get());
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), stream.get()));
  EXPECT_EQ(cuda::success, cuGraphDestroy(end(stream.get())));
  EXPECT_EQ(cuda::error_invalid_value, cuEventSynchronize(event.get()));
}

TEST_F(Graphs, TheDefaultStreamCannotBeUsedWhileABlockingStreamIsCaptured) {
  const DeviceBuffer buffer(4096);
  const Stream blocking(0);
  begin(blocking.get());
  EXPECT_EQ(cuda::error_stream_capture_implicit, cuMemsetD8Async(buffer.at(), 1, 4096, nullptr));
  end_broken(blocking.get());
}

TEST_F(Graphs, TheDefaultStreamCannotBeCaptured) {
  EXPECT_NE(cuda::success, cuStreamBeginCapture_v2(nullptr, cuda::capture_thread_local));
}

TEST_F(Graphs, WhatWasNotBegunCannotBeEnded) {
  const Stream stream;
  cuda::Graph graph = nullptr;
  EXPECT_NE(cuda::success, cuStreamEndCapture(stream.get(), &graph));
}

TEST_F(Graphs, ACaptureEndsInTheThreadWhereItBegan) {
  const Stream stream;
  begin(stream.get());
  std::thread([&stream, this] {
    ASSERT_EQ(cuda::success, cuCtxSetCurrent(context()));
    cuda::Graph graph = nullptr;
    EXPECT_EQ(cuda::error_stream_capture_wrong_thread, cuStreamEndCapture(stream.get(), &graph));
  }).join();
  cuda::Graph graph = nullptr;
  cuStreamEndCapture(stream.get(), &graph);
  if (graph != nullptr) cuGraphDestroy(graph);
}

TEST_F(Graphs, ARelaxedCaptureMayEndInAnyThread) {
  const Stream stream;
  begin(stream.get(), cuda::capture_relaxed);
  std::thread([&stream, this] {
    ASSERT_EQ(cuda::success, cuCtxSetCurrent(context()));
    EXPECT_EQ(cuda::success, cuGraphDestroy(end(stream.get())));
  }).join();
}

TEST_F(Graphs, TwoCapturesCannotBeMerged) {
  const Stream first;
  const Stream second;
  const Event event;
  begin(first.get());
  begin(second.get());
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), first.get()));
  EXPECT_EQ(cuda::error_stream_capture_merge, cuStreamWaitEvent(second.get(), event.get(), 0));
  cuda::Graph graph = nullptr;
  cuStreamEndCapture(first.get(), &graph);
  cuStreamEndCapture(second.get(), &graph);
}

TEST_F(Graphs, AllocatingDuringACaptureBreaksIt) {
  const Stream stream;
  begin(stream.get(), cuda::capture_global);
  Ptr pointer = 0;
  EXPECT_EQ(cuda::error_stream_capture_unsupported, cuMemAlloc_v2(&pointer, 4096));
  end_broken(stream.get());
}

TEST_F(Graphs, ARelaxedThreadMayAllocateDuringACapture) {
  const Stream stream;
  begin(stream.get(), cuda::capture_thread_local);
  int mode = cuda::capture_relaxed;
  ASSERT_EQ(cuda::success, cuThreadExchangeStreamCaptureMode(&mode));
  Ptr pointer = 0;
  EXPECT_EQ(cuda::success, cuMemAlloc_v2(&pointer, 4096));
  ASSERT_EQ(cuda::success, cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cuda::success, cuGraphDestroy(end(stream.get())));
  EXPECT_EQ(cuda::success, cuMemFree_v2(pointer));
}

TEST_F(Graphs, AnotherStreamWorksOnDuringACapture) {
  const PinnedBuffer from(4096);
  const DeviceBuffer to(4096);
  std::fill_n(from.data(), 4096, std::uint8_t{4});
  const Stream captured;
  const Stream other;
  begin(captured.get());
  int mode = cuda::capture_relaxed;
  ASSERT_EQ(cuda::success, cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(to.at(), from.data(), 4096, other.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(other.get()));
  ASSERT_EQ(cuda::success, cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cuda::success, cuGraphDestroy(end(captured.get())));
  EXPECT_EQ(std::vector<std::uint8_t>(4096, 4), to.bytes());
}

}  // namespace
}  // namespace sluice::gpu_suite
