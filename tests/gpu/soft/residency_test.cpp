// SPDX-License-Identifier: Apache-2.0
// SLUICE_SOFTGPU_SMS: how many kernels run at a time.
#include <array>
#include <atomic>

#include "gpu/driver/kernel_texts.h"
#include "scenario.h"

namespace sluice::gpu_suite::residency_test {
namespace {

// Words that the host shares with kernels.
struct Words {
  Words() {
    void* memory = nullptr;
    cuMemHostAlloc(&memory, 64, 0);
    first = static_cast<std::uint32_t*>(memory);
    for (unsigned index = 0; index < 16; ++index) store(index, 0);
  }
  void store(unsigned index, std::uint32_t value) const { std::atomic_ref(first[index]).store(value); }
  std::uint32_t load(unsigned index) const { return std::atomic_ref(first[index]).load(); }
  Ptr at(unsigned index) const { return reinterpret_cast<Ptr>(first + index); }
  std::uint32_t* first = nullptr;
};

cuda::Function kernel(const char* text, const char* name) {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  cuModuleLoadData(&module, text);
  cuModuleGetFunction(&function, module, name);
  return function;
}

bool launch(cuda::Function function, cuda::Stream stream, Ptr address, std::uint32_t value) {
  void* parameters[] = {&address, &value};
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr) == cuda::success;
}

cuda::Stream make_stream() {
  cuda::Stream stream = nullptr;
  cuStreamCreate(&stream, cuda::stream_non_blocking);
  return stream;
}

// Two kernels hold what there is; a third one starts when one of them is let go, and not before.
Verdict a_third_kernel_waits() {
  const Words words;
  const cuda::Function hold = kernel(ptx::probe_hold, "sluice_probe_hold");
  const cuda::Function store = kernel(ptx::probe_store, "sluice_probe_store");
  const std::array streams{make_stream(), make_stream(), make_stream()};
  Ptr device = 0;
  AND_THAT(cuMemAlloc_v2(&device, 64) == cuda::success);
  AND_THAT(launch(hold, streams[0], words.at(0), 1));
  AND_THAT(launch(hold, streams[1], words.at(2), 1));
  while (words.load(1) == 0 || words.load(3) == 0) {  // until both have begun
  }
  AND_THAT(launch(store, streams[2], words.at(4), 1));
  for (int look = 0; look < 10000; ++look) AND_THAT(cuStreamQuery(streams[2]) == cuda::error_not_ready);
  AND_THAT(words.load(4) == 0);
  const cuda::Stream copies = make_stream();
  AND_THAT(cuMemsetD8Async(device, 1, 64, copies) == cuda::success);
  AND_THAT(cuStreamSynchronize(copies) == cuda::success);
  words.store(0, 1);
  AND_THAT(cuStreamSynchronize(streams[2]) == cuda::success);
  AND_THAT(words.load(4) == 1);
  AND_THAT(cuStreamQuery(streams[1]) == cuda::error_not_ready);
  words.store(2, 1);
  return cuStreamSynchronize(streams[1]) == cuda::success ? "" : "the second kernel did not end";
}

TEST(Multiprocessors, ThatAreAllTakenKeepALaunchWaiting) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_SMS", "2"}}, a_third_kernel_waits);
}

Verdict many_kernels_run_together() {
  const Words words;
  const cuda::Function hold = kernel(ptx::probe_hold, "sluice_probe_hold");
  const cuda::Function store = kernel(ptx::probe_store, "sluice_probe_store");  // loading waits for all streams
  std::array<cuda::Stream, 12> streams{};
  for (auto& stream : streams) {
    stream = make_stream();
    AND_THAT(launch(hold, stream, words.at(0), 1));
  }
  const cuda::Stream last = make_stream();
  AND_THAT(launch(store, last, words.at(0), 1));
  for (const auto stream : streams) AND_THAT(cuStreamSynchronize(stream) == cuda::success);
  return "";
}

TEST(Multiprocessors, AreEnoughForEverybodyUnlessTheKnobSaysSo) {
  EXPECT_HOLDS({}, many_kernels_run_together);
}

Verdict a_reset_ends_kernels() {
  const Words words;
  const cuda::Function hold = kernel(ptx::probe_hold, "sluice_probe_hold");
  const std::array streams{make_stream(), make_stream()};
  AND_THAT(launch(hold, streams[0], words.at(0), 1));
  AND_THAT(launch(hold, streams[1], words.at(0), 1));
  AND_THAT(cuDevicePrimaryCtxReset_v2(0) == cuda::success);
  cuda::Context context = nullptr;
  AND_THAT(cuDevicePrimaryCtxRetain(&context, 0) == cuda::success && cuCtxSetCurrent(context) == cuda::success);
  const Words fresh;
  const cuda::Stream stream = make_stream();
  AND_THAT(launch(kernel(ptx::probe_store, "sluice_probe_store"), stream, fresh.at(0), 1));
  AND_THAT(cuStreamSynchronize(stream) == cuda::success && fresh.load(0) == 1);
  return "";
}

TEST(Multiprocessors, AreFreeAgainAfterAReset) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_SMS", "1"}}, a_reset_ends_kernels);
}

Verdict foreign_kernels_are_refused() {
  cuda::Module module = nullptr;
  const char* const foreign =
      ".version 6.4\n.target sm_60\n.address_size 64\n.visible .entry somebodys_kernel()\n{\n"
      "  ret;\n}\n";
  AND_THAT(cuModuleLoadData(&module, foreign) == cuda::error_no_binary_for_gpu);
  const unsigned char cubin[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
  AND_THAT(cuModuleLoadData(&module, cubin) == cuda::error_no_binary_for_gpu);
  const unsigned fat_binary[] = {0x466243b1U, 1, 0, 0};
  AND_THAT(cuModuleLoadData(&module, fat_binary) == cuda::error_no_binary_for_gpu);
  return "";
}

Verdict versions_that_no_driver_knows_are_refused() {
  cuda::Module module = nullptr;
  AND_THAT(cuModuleLoadData(&module, ".version 999999999.9\n.target sm_60\n") == cuda::error_unsupported_ptx_version);
  AND_THAT(cuModuleLoadData(&module, ".version -9.9\n.target sm_60\n") == cuda::error_invalid_ptx);
  return "";
}

TEST(Kernels, OfVersionsThatNoDriverKnowsAreRefused) {
  EXPECT_HOLDS({}, versions_that_no_driver_knows_are_refused);
}

TEST(Kernels, OfOthersAreRefused) {
  EXPECT_HOLDS({}, foreign_kernels_are_refused);
}

}  // namespace
}  // namespace sluice::gpu_suite::residency_test
