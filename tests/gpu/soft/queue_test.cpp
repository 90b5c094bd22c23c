// SPDX-License-Identifier: Apache-2.0
// Hardware queues: streams that share one wait for each other, as on a GPU that has fewer queues than streams.
#include <array>
#include <atomic>
#include <cstddef>

#include "scenario.h"

namespace sluice::gpu_suite::queue_test {
namespace {

// A word that the host shares with streams.
struct Word {
  Word() {
    void* memory = nullptr;
    cuMemHostAlloc(&memory, sizeof(std::uint32_t), 0);
    value = static_cast<std::uint32_t*>(memory);
    store(0);
  }
  void store(std::uint32_t now) const { std::atomic_ref(*value).store(now); }
  Ptr at() const { return reinterpret_cast<Ptr>(value); }
  std::uint32_t* value = nullptr;
};

cuda::Stream make_stream() {
  cuda::Stream stream = nullptr;
  cuStreamCreate(&stream, cuda::stream_non_blocking);
  return stream;
}

// Eight streams wait for a value; the copy that they wait for is on a stream of its own. True when it gets through.
Verdict eight_streams_wait(bool expected_to_pass) {
  const Word word;
  Ptr data = 0;
  AND_THAT(cuMemAlloc_v2(&data, 4096) == cuda::success);
  std::array<cuda::Stream, 8> waiting{};
  for (auto& stream : waiting) {
    stream = make_stream();
    AND_THAT(cuStreamWaitValue32_v2(stream, word.at(), 1, cuda::wait_value_eq) == cuda::success);
  }
  const cuda::Stream copies = make_stream();
  AND_THAT(cuMemsetD8Async(data, 1, 4096, copies) == cuda::success);
  if (expected_to_pass) {
    AND_THAT(cuStreamSynchronize(copies) == cuda::success);
  } else {
    // Whatever the machine does meanwhile, the copy stays behind a stream that waits.
    for (int look = 0; look < 10000; ++look) AND_THAT(cuStreamQuery(copies) == cuda::error_not_ready);
  }
  word.store(1);
  AND_THAT(cuStreamSynchronize(copies) == cuda::success);
  for (const auto stream : waiting) AND_THAT(cuStreamSynchronize(stream) == cuda::success);
  return "";
}

TEST(HardwareQueues, ACopyBehindWaitingStreamsIsStuckWhenAllQueuesAreTaken) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_QUEUES", "8"}}, [] { return eight_streams_wait(false); });
}

TEST(HardwareQueues, ACopyPassesWaitingStreamsWhenEachHasAQueue) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_QUEUES", "0"}}, [] { return eight_streams_wait(true); });
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_QUEUES", "16"}}, [] { return eight_streams_wait(true); });
}

constexpr Knobs of_an_h200{{"SLUICE_SOFTGPU_QUEUES", "8"}, {"SLUICE_SOFTGPU_QUEUES_FOR_ALL", "1"}};

// What the driver suite finds on an H200, and that what is short shares the queues of kernels.
Verdict engines_have_queues_of_their_own() {
  constexpr std::size_t large = 32768;
  const Word word;
  Ptr data = 0;
  void* host = nullptr;
  AND_THAT(cuMemAlloc_v2(&data, large) == cuda::success && cuMemHostAlloc(&host, large, 0) == cuda::success);
  std::array<cuda::Stream, 8> waiting{};
  for (auto& stream : waiting) {
    stream = make_stream();
    AND_THAT(cuStreamWaitValue32_v2(stream, word.at(), 1, cuda::wait_value_eq) == cuda::success);
  }
  const cuda::Stream engine = make_stream();
  AND_THAT(cuMemcpyHtoDAsync_v2(data, host, large, engine) == cuda::success);
  AND_THAT(cuMemcpyDtoHAsync_v2(host, data, 4, engine) == cuda::success);
  AND_THAT(cuStreamSynchronize(engine) == cuda::success);
  const cuda::Stream among_kernels = make_stream();
  AND_THAT(cuMemcpyHtoDAsync_v2(data, host, 4, among_kernels) == cuda::success);
  for (int look = 0; look < 10000; ++look) AND_THAT(cuStreamQuery(among_kernels) == cuda::error_not_ready);
  word.store(1);
  AND_THAT(cuStreamSynchronize(among_kernels) == cuda::success);
  for (const auto stream : waiting) AND_THAT(cuStreamSynchronize(stream) == cuda::success);
  return "";
}

// What the driver suite finds on an H200, and that a single short copy to the device keeps its batch among the kernels.
Verdict batches_go_by_engines_if_all_of_each_would() {
  constexpr std::size_t large = 32768;
  const Word word;
  Ptr data = 0;
  void* host = nullptr;
  AND_THAT(cuMemAlloc_v2(&data, 2 * large) == cuda::success && cuMemHostAlloc(&host, 2 * large, 0) == cuda::success);
  std::array<cuda::Stream, 8> waiting{};
  for (auto& stream : waiting) {
    stream = make_stream();
    AND_THAT(cuStreamWaitValue32_v2(stream, word.at(), 1, cuda::wait_value_eq) == cuda::success);
  }
  const Ptr pinned = reinterpret_cast<Ptr>(host);
  std::array<Ptr, 2> on_device{data, data + large};
  std::array<Ptr, 2> on_host{pinned, pinned + large};
  std::array<std::size_t, 2> sizes{large, large};
  cuda::CopyAttributes in_order{};
  in_order.source_access = cuda::source_in_stream_order;
  std::size_t first = 0;
  const cuda::Stream engine = make_stream();
  AND_THAT(cuMemcpyBatchAsync_v2(on_device.data(), on_host.data(), sizes.data(), 2, &in_order, &first, 1, engine) ==
           cuda::success);
  sizes[1] = 4;
  AND_THAT(cuMemcpyBatchAsync_v2(on_host.data(), on_device.data(), sizes.data(), 2, &in_order, &first, 1, engine) ==
           cuda::success);
  AND_THAT(cuStreamSynchronize(engine) == cuda::success);
  const cuda::Stream among_kernels = make_stream();
  AND_THAT(cuMemcpyBatchAsync_v2(on_device.data(), on_host.data(), sizes.data(), 2, &in_order, &first, 1,
                                 among_kernels) == cuda::success);
  for (int look = 0; look < 10000; ++look) AND_THAT(cuStreamQuery(among_kernels) == cuda::error_not_ready);
  word.store(1);
  AND_THAT(cuStreamSynchronize(among_kernels) == cuda::success);
  for (const auto stream : waiting) AND_THAT(cuStreamSynchronize(stream) == cuda::success);
  return "";
}

// Copies that stand behind what their streams wait for have the four queues to the device.
Verdict four_copies_that_wait_hold_up_the_next() {
  constexpr std::size_t large = 32768;
  const Word word;
  Ptr data = 0;
  void* host = nullptr;
  AND_THAT(cuMemAlloc_v2(&data, 6 * large) == cuda::success && cuMemHostAlloc(&host, 2 * large, 0) == cuda::success);
  std::array<cuda::Stream, 4> waiting{};
  for (auto& stream : waiting) {
    stream = make_stream();
    AND_THAT(cuStreamWaitValue32_v2(stream, word.at(), 1, cuda::wait_value_eq) == cuda::success);
    AND_THAT(cuMemcpyHtoDAsync_v2(data, host, large, stream) == cuda::success);
    data += large;
  }
  const cuda::Stream to_device = make_stream();
  AND_THAT(cuMemcpyHtoDAsync_v2(data, host, large, to_device) == cuda::success);
  data += large;
  for (int look = 0; look < 10000; ++look) AND_THAT(cuStreamQuery(to_device) == cuda::error_not_ready);
  const cuda::Stream to_host = make_stream();
  AND_THAT(cuMemcpyDtoHAsync_v2(static_cast<std::byte*>(host) + large, data, large, to_host) == cuda::success);
  AND_THAT(cuStreamSynchronize(to_host) == cuda::success);
  word.store(1);
  AND_THAT(cuStreamSynchronize(to_device) == cuda::success);
  for (const auto stream : waiting) AND_THAT(cuStreamSynchronize(stream) == cuda::success);
  return "";
}

TEST(HardwareQueues, OfCopyEnginesAreTheirOwn) {
  EXPECT_HOLDS(of_an_h200, engines_have_queues_of_their_own);
  EXPECT_HOLDS(of_an_h200, batches_go_by_engines_if_all_of_each_would);
  EXPECT_HOLDS(of_an_h200, four_copies_that_wait_hold_up_the_next);
}

Verdict work_on_the_waiting_stream_itself_is_safe() {
  const Word word;
  Ptr data = 0;
  AND_THAT(cuMemAlloc_v2(&data, 16 * 4096) == cuda::success);
  std::array<cuda::Stream, 16> waiting{};
  for (auto& stream : waiting) {
    stream = make_stream();
    AND_THAT(cuStreamWaitValue32_v2(stream, word.at(), 1, cuda::wait_value_eq) == cuda::success);
    AND_THAT(cuMemsetD8Async(data, 1, 4096, stream) == cuda::success);
    data += 4096;
  }
  word.store(1);  // by the host, as a thread that has read a file would
  for (const auto stream : waiting) AND_THAT(cuStreamSynchronize(stream) == cuda::success);
  return "";
}

TEST(HardwareQueues, CopiesOnTheWaitingStreamsThemselvesAreSafe) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_QUEUES", "2"}}, work_on_the_waiting_stream_itself_is_safe);
}

Verdict ending_the_context_ends_the_waiting() {
  const Word word;
  const cuda::Stream stream = make_stream();
  AND_THAT(cuStreamWaitValue32_v2(stream, word.at(), 1, cuda::wait_value_eq) == cuda::success);
  AND_THAT(cuDevicePrimaryCtxReset_v2(0) == cuda::success);
  AND_THAT(cuStreamQuery(stream) == cuda::error_invalid_handle);
  return "";
}

TEST(HardwareQueues, AWaitEndsWithItsContext) {
  EXPECT_HOLDS({}, ending_the_context_ends_the_waiting);
}

// Host functions of four streams, each of which notes its thread.
Verdict one_thread_runs_them() {
  const auto note = [](void* data) { *static_cast<pid_t*>(data) = ::gettid(); };
  std::array<pid_t, 4> runners{};
  std::array<cuda::Stream, 4> streams{};
  for (std::size_t index = 0; index < streams.size(); ++index) {
    streams[index] = make_stream();
    AND_THAT(cuLaunchHostFunc(streams[index], note, &runners[index]) == cuda::success);
  }
  for (const auto stream : streams) AND_THAT(cuStreamSynchronize(stream) == cuda::success);
  for (const pid_t runner : runners) AND_THAT(runner == runners[0] && runner != 0 && runner != ::gettid());
  return "";
}

TEST(HostFunctions, OfAllStreamsRunOnOneThread) {
  EXPECT_HOLDS({}, one_thread_runs_them);
}

// So one that waits for the next waits for ever, as on a GPU.
Verdict one_holds_the_next() {
  static std::atomic<bool> first_waits{false};
  static std::atomic<bool> second_ran{false};
  static std::atomic<bool> let_go{false};
  const auto wait = [](void*) {
    first_waits = true;
    let_go.wait(false);
  };
  const auto run = [](void*) { second_ran = true; };
  const std::array streams{make_stream(), make_stream(), make_stream()};
  Ptr device = 0;
  AND_THAT(cuMemAlloc_v2(&device, 64) == cuda::success);
  AND_THAT(cuLaunchHostFunc(streams[0], wait, nullptr) == cuda::success);
  while (!first_waits) AND_THAT(cuStreamQuery(streams[0]) == cuda::error_not_ready);
  AND_THAT(cuLaunchHostFunc(streams[1], run, nullptr) == cuda::success);
  AND_THAT(cuMemsetD8Async(device, 1, 64, streams[2]) == cuda::success);
  AND_THAT(cuStreamSynchronize(streams[2]) == cuda::success);  // other work goes on
  for (int look = 0; look < 10000; ++look) AND_THAT(cuStreamQuery(streams[1]) == cuda::error_not_ready);
  AND_THAT(!second_ran);
  let_go = true;
  let_go.notify_all();
  AND_THAT(cuStreamSynchronize(streams[1]) == cuda::success);
  return second_ran ? "" : "the second one did not run";
}

TEST(HostFunctions, ThatWaitHoldThoseOfOtherStreams) {
  EXPECT_HOLDS({}, one_holds_the_next);
}

}  // namespace
}  // namespace sluice::gpu_suite::queue_test
