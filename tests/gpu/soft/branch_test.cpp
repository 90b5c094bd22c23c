// SPDX-License-Identifier: Apache-2.0
// Branches of a graph that run at the same time. CUDA leaves that open; a program that finds it on a GPU, and relies on
// it, must not hang here.
#include <atomic>

#include "gpu/driver/kernel_texts.h"
#include "scenario.h"

namespace sluice::gpu_suite {
namespace {

cuda::Stream make_stream() {
  cuda::Stream stream = nullptr;
  cuStreamCreate(&stream, cuda::stream_non_blocking);
  return stream;
}

cuda::Event make_event() {
  cuda::Event event = nullptr;
  cuEventCreate(&event, cuda::event_disable_timing);
  return event;
}

// Captures two branches, what `first` and what `second` put into a stream, and replays them some times.
template <typename First, typename Second>
Verdict replay_branches(First first, Second second) {
  const cuda::Stream streams[] = {make_stream(), make_stream()};
  const cuda::Event forked = make_event();
  const cuda::Event joined = make_event();
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  AND_THAT(cuStreamBeginCapture_v2(streams[0], cuda::capture_thread_local) == cuda::success);
  AND_THAT(cuEventRecord(forked, streams[0]) == cuda::success);
  AND_THAT(cuStreamWaitEvent(streams[1], forked, 0) == cuda::success);
  AND_THAT(first(streams[0]) == cuda::success);
  AND_THAT(second(streams[1]) == cuda::success);
  AND_THAT(cuEventRecord(joined, streams[1]) == cuda::success);
  AND_THAT(cuStreamWaitEvent(streams[0], joined, 0) == cuda::success);
  AND_THAT(cuStreamEndCapture(streams[0], &graph) == cuda::success);
  AND_THAT(cuGraphInstantiateWithFlags(&exec, graph, 0) == cuda::success);
  for (int replay = 0; replay < 10; ++replay) {
    AND_THAT(cuGraphLaunch(exec, streams[0]) == cuda::success);
    AND_THAT(cuStreamSynchronize(streams[0]) == cuda::success);
  }
  AND_THAT(cuGraphExecDestroy(exec) == cuda::success);
  AND_THAT(cuGraphDestroy(graph) == cuda::success);
  return "";
}

Ptr pinned_word() {
  void* memory = nullptr;
  cuMemHostAlloc(&memory, 64, 0);
  for (unsigned index = 0; index < 16; ++index) std::atomic_ref(static_cast<std::uint32_t*>(memory)[index]).store(0);
  return reinterpret_cast<Ptr>(memory);
}

// Either branch waits for the other, whichever was captured first.
Verdict values_go_both_ways() {
  const Ptr word = pinned_word();
  const auto hand_over = [word](std::uint32_t mine, std::uint32_t other) {
    return [=](cuda::Stream stream) {
      cuda::Result result = cuStreamWaitValue32_v2(stream, word, mine, cuda::wait_value_eq);
      if (result == cuda::success) result = cuStreamWriteValue32_v2(stream, word, other, 0);
      return result;
    };
  };
  // 0 -> 1 by the second branch, 1 -> 0 by the first.
  return replay_branches(hand_over(1, 0), hand_over(0, 1));
}

TEST(Branches, OfAGraphWaitForEachOthersValues) {
  EXPECT_HOLDS({}, values_go_both_ways);
}

// A host function waits for a kernel of the other branch.
Verdict a_host_function_waits_for_a_kernel() {
  const Ptr word = pinned_word();
  cuda::Module module = nullptr;
  cuda::Function store = nullptr;
  AND_THAT(cuModuleLoadData(&module, ptx::probe_store) == cuda::success);
  AND_THAT(cuModuleGetFunction(&store, module, "sluice_probe_store") == cuda::success);
  const auto wait_on_the_host = [word](cuda::Stream stream) {
    return cuLaunchHostFunc(
        stream,
        [](void* data) {
          const std::atomic_ref stored(*static_cast<std::uint32_t*>(data));
          while (stored.exchange(0) == 0) {
          }
        },
        reinterpret_cast<void*>(word));
  };
  const auto store_by_a_kernel = [store, word](cuda::Stream stream) {
    Ptr address = word;
    std::uint32_t value = 1;
    void* parameters[] = {&address, &value};
    return cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  };
  return replay_branches(wait_on_the_host, store_by_a_kernel);
}

TEST(Branches, OfAGraphLetAHostFunctionWaitForAKernel) {
  EXPECT_HOLDS({}, a_host_function_waits_for_a_kernel);
}

}  // namespace
}  // namespace sluice::gpu_suite
