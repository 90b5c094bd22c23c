// SPDX-License-Identifier: Apache-2.0
// Number of devices, their memory, their links.
#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "gpu/driver/kernel_texts.h"
#include "scenario.h"

namespace sluice::gpu_suite {
namespace {

Verdict there_are_three_devices() {
  int count = 0;
  AND_THAT(cuDeviceGetCount(&count) == cuda::success && count == 3);
  int can = 0;
  AND_THAT(cuDeviceCanAccessPeer(&can, 0, 2) == cuda::success && can == 1);
  return "";
}

TEST(Knobs, SayHowManyDevicesThereAre) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_DEVICES", "3"}}, there_are_three_devices);
}

TEST(Knobs, SayThatThereIsNoDevice) {
  EXPECT_EXIT(
      {
        ::setenv("SLUICE_SOFTGPU_DEVICES", "0", 1);
        ::_exit(cuInit(0) == cuda::error_no_device ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

Verdict memory_is_64_mib() {
  std::size_t total = 0;
  AND_THAT(cuDeviceTotalMem_v2(&total, 0) == cuda::success && total == std::size_t{64} << 20U);
  std::vector<Ptr> pointers;
  Ptr pointer = 0;
  for (int index = 0; index < 32; ++index) {
    AND_THAT(cuMemAlloc_v2(&pointer, std::size_t{2} << 20U) == cuda::success);
    pointers.push_back(pointer);
  }
  AND_THAT(cuMemAlloc_v2(&pointer, 1) == cuda::error_out_of_memory);
  std::size_t free = 1;
  AND_THAT(cuMemGetInfo_v2(&free, &total) == cuda::success && free == 0);
  for (const Ptr old : pointers) AND_THAT(cuMemFree_v2(old) == cuda::success);
  AND_THAT(cuMemAlloc_v2(&pointer, std::size_t{64} << 20U) == cuda::success);
  return "";
}

TEST(Knobs, SayHowMuchMemoryThereIs) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_MEMORY_MIB", "64"}}, memory_is_64_mib);
}

Verdict peers_are_strangers() {
  int can = 1;
  AND_THAT(cuDeviceCanAccessPeer(&can, 0, 1) == cuda::success && can == 0);
  cuda::Context other = nullptr;
  AND_THAT(cuDevicePrimaryCtxRetain(&other, 1) == cuda::success);
  AND_THAT(cuCtxEnablePeerAccess(other, 0) == cuda::error_peer_access_unsupported);
  return "";
}

TEST(Knobs, SayThatDevicesCannotReachEachOther) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_DEVICES", "2"}, {"SLUICE_SOFTGPU_PEER", "0"}}, peers_are_strangers);
}

Verdict two_of_three_are_peers() {
  const auto reach = [](int one, int other) {
    int can = -1;
    return cuDeviceCanAccessPeer(&can, one, other) == cuda::success ? can : -1;
  };
  AND_THAT(reach(0, 2) == 1 && reach(2, 0) == 1);
  AND_THAT(reach(0, 1) == 0 && reach(1, 2) == 0);
  cuda::Context second = nullptr;
  cuda::Context third = nullptr;
  AND_THAT(cuDevicePrimaryCtxRetain(&second, 1) == cuda::success);
  AND_THAT(cuDevicePrimaryCtxRetain(&third, 2) == cuda::success);
  AND_THAT(cuCtxEnablePeerAccess(second, 0) == cuda::error_peer_access_unsupported);
  AND_THAT(cuCtxEnablePeerAccess(third, 0) == cuda::success);
  return "";
}

TEST(Knobs, SayWhichDevicesReachEachOther) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_DEVICES", "3"}, {"SLUICE_SOFTGPU_PEER", "2-0"}}, two_of_three_are_peers);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_DEVICES", "3"}, {"SLUICE_SOFTGPU_PEER", "7-8,0-2"}}, two_of_three_are_peers);
}

// The time that a copy of so many bytes takes on a stream, in milliseconds; negative when something fails.
float time_of_a_copy(std::size_t size) {
  Ptr device = 0;
  void* host = nullptr;
  cuda::Event start = nullptr;
  cuda::Event end = nullptr;
  float milliseconds = -1;
  if (cuMemAlloc_v2(&device, size) != cuda::success || cuMemHostAlloc(&host, size, 0) != cuda::success ||
      cuEventCreate(&start, 0) != cuda::success || cuEventCreate(&end, 0) != cuda::success ||
      cuEventRecord(start, nullptr) != cuda::success ||
      cuMemcpyHtoDAsync_v2(device, host, size, nullptr) != cuda::success ||
      cuEventRecord(end, nullptr) != cuda::success || cuEventSynchronize(end) != cuda::success ||
      cuEventElapsedTime(&milliseconds, start, end) != cuda::success) {
    return -1;
  }
  return milliseconds;
}

Verdict a_copy_takes_its_time() {
  AND_THAT(time_of_a_copy(std::size_t{16} << 20U) >= 15.0F);
  return "";
}

TEST(Knobs, SlowTheLinkDown) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_LINK_GIBPS", "1.0"}}, a_copy_takes_its_time);
}

Verdict a_small_copy_has_a_latency() {
  AND_THAT(time_of_a_copy(4) >= 20.0F);
  return "";
}

TEST(Knobs, GiveTheLinkALatency) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_LINK_US", "20000"}}, a_small_copy_has_a_latency);
}

Verdict a_module_takes_its_time() {
  cuda::Module module = nullptr;
  const auto began = std::chrono::steady_clock::now();
  AND_THAT(cuModuleLoadData(&module, ptx::probe_store) == cuda::success);
  AND_THAT(std::chrono::steady_clock::now() - began >= std::chrono::milliseconds(20));
  return "";
}

TEST(Knobs, SlowLoadingDown) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_LOAD_US", "20000"}}, a_module_takes_its_time);
}

// A copy that is on its way over the link for a minute; no thread waits for it.
Verdict others_work_on_during_a_copy() {
  Ptr device = 0;
  void* host = nullptr;
  AND_THAT(cuMemAlloc_v2(&device, 8192) == cuda::success && cuMemHostAlloc(&host, 4096, 0) == cuda::success);
  std::array<cuda::Stream, 2> streams{};
  for (auto& stream : streams) AND_THAT(cuStreamCreate(&stream, cuda::stream_non_blocking) == cuda::success);
  AND_THAT(cuMemcpyHtoDAsync_v2(device, host, 4096, streams[0]) == cuda::success);
  AND_THAT(cuMemsetD8Async(device + 4096, 1, 4096, streams[1]) == cuda::success);
  AND_THAT(cuStreamSynchronize(streams[1]) == cuda::success);
  AND_THAT(cuStreamQuery(streams[0]) == cuda::error_not_ready);
  return "";
}

TEST(Knobs, LetTheDeviceWorkDuringASlowCopy) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_LINK_US", "60000000"}}, others_work_on_during_a_copy);
}

// Two copies of 250 ms each, of the same direction: they take turns.
Verdict copies_share_the_link() {
  constexpr std::size_t size = std::size_t{16} << 20U;
  Ptr device = 0;
  void* host = nullptr;
  cuda::Event start = nullptr;
  AND_THAT(cuMemAlloc_v2(&device, size) == cuda::success && cuMemHostAlloc(&host, size, 0) == cuda::success);
  AND_THAT(cuEventCreate(&start, 0) == cuda::success && cuEventRecord(start, nullptr) == cuda::success);
  AND_THAT(cuEventSynchronize(start) == cuda::success);
  std::array<cuda::Stream, 2> streams{};
  std::array<cuda::Event, 2> ends{};
  for (std::size_t index = 0; index < 2; ++index) {
    AND_THAT(cuStreamCreate(&streams[index], cuda::stream_non_blocking) == cuda::success);
    AND_THAT(cuEventCreate(&ends[index], 0) == cuda::success);
    AND_THAT(cuMemcpyHtoDAsync_v2(device, host, size, streams[index]) == cuda::success);
    AND_THAT(cuEventRecord(ends[index], streams[index]) == cuda::success);
  }
  float longest = 0;
  for (const auto end : ends) {
    float milliseconds = 0;
    AND_THAT(cuEventSynchronize(end) == cuda::success);
    AND_THAT(cuEventElapsedTime(&milliseconds, start, end) == cuda::success);
    longest = std::max(longest, milliseconds);
  }
  AND_THAT(longest >= 499.0F);
  return "";
}

TEST(Knobs, LetCopiesOfOneDirectionTakeTurns) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_LINK_GIBPS", "0.0625"}}, copies_share_the_link);
}

Verdict the_standard_values_hold() {
  int count = 0;
  std::size_t total = 0;
  AND_THAT(cuDeviceGetCount(&count) == cuda::success && count == 1);
  AND_THAT(cuDeviceTotalMem_v2(&total, 0) == cuda::success && total == std::size_t{4096} << 20U);
  return "";
}

TEST(Knobs, ThatCannotBeReadAreNotGiven) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_DEVICES", "many"}, {"SLUICE_SOFTGPU_MEMORY_MIB", "1e3"}}, the_standard_values_hold);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_DEVICES", "65"}, {"SLUICE_SOFTGPU_MEMORY_MIB", "-1"}}, the_standard_values_hold);
}

}  // namespace
}  // namespace sluice::gpu_suite
