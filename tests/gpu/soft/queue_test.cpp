// Hardware queues: streams that share one wait for each other, as on a GPU that has fewer queues than streams.
#include <array>
#include <atomic>

#include "scenario.h"

namespace sluice::gpu_suite {
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

}  // namespace
}  // namespace sluice::gpu_suite
