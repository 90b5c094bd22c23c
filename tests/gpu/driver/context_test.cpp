// SPDX-License-Identifier: Apache-2.0
// Contexts and the stack of them that each thread has.
#include <thread>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Contexts : public Driver {};

cuda::Context current() {
  cuda::Context context = nullptr;
  EXPECT_EQ(cuda::success, cuCtxGetCurrent(&context));
  return context;
}

TEST_F(Contexts, ThePrimaryOneIsTheSameForEverybodyWhoRetainsIt) {
  cuda::Context again = nullptr;
  ASSERT_EQ(cuda::success, cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(context(), again);
  EXPECT_EQ(cuda::success, cuDevicePrimaryCtxRelease_v2(0));
}

TEST_F(Contexts, ARetainedPrimaryOneIsActive) {
  unsigned flags = 0;
  int active = 0;
  ASSERT_EQ(cuda::success, cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(1, active);
}

TEST_F(Contexts, AnInvalidDeviceHasNone) {
  cuda::Context none = nullptr;
  EXPECT_EQ(cuda::error_invalid_device, cuDevicePrimaryCtxRetain(&none, 4711));
  EXPECT_EQ(cuda::error_invalid_device, cuCtxCreate_v2(&none, 0, 4711));
}

TEST_F(Contexts, PushAndPopAreAStack) {
  cuda::Context made = nullptr;
  ASSERT_EQ(cuda::success, cuCtxCreate_v2(&made, 0, 0));
  EXPECT_EQ(made, current()) << "creating makes current";
  ASSERT_EQ(cuda::success, cuCtxPushCurrent_v2(context()));
  EXPECT_EQ(context(), current());
  cuda::Context popped = nullptr;
  ASSERT_EQ(cuda::success, cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(context(), popped);
  EXPECT_EQ(made, current());
  ASSERT_EQ(cuda::success, cuCtxDestroy_v2(made));
  EXPECT_EQ(context(), current()) << "destroying the current one pops it";
}

TEST_F(Contexts, SettingReplacesTheTopOfTheStack) {
  cuda::Context made = nullptr;
  ASSERT_EQ(cuda::success, cuCtxCreate_v2(&made, 0, 0));
  ASSERT_EQ(cuda::success, cuCtxSetCurrent(context()));
  cuda::Context popped = nullptr;
  ASSERT_EQ(cuda::success, cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(context(), popped);
  EXPECT_EQ(context(), current()) << "the created one was replaced, not covered";
  EXPECT_EQ(cuda::success, cuCtxDestroy_v2(made));
}

TEST_F(Contexts, ANewThreadHasNoneCurrent) {
  std::thread([] {
    EXPECT_EQ(nullptr, current());
    cuda::Device device = 0;
    EXPECT_EQ(cuda::error_invalid_context, cuCtxGetDevice(&device));
    cuda::Context popped = nullptr;
    EXPECT_EQ(cuda::error_invalid_context, cuCtxPopCurrent_v2(&popped));
    EXPECT_EQ(cuda::error_invalid_context, cuCtxSynchronize());
    Ptr pointer = 0;
    EXPECT_EQ(cuda::error_invalid_context, cuMemAlloc_v2(&pointer, 64));
    cuda::Stream stream = nullptr;
    EXPECT_EQ(cuda::error_invalid_context, cuStreamCreate(&stream, 0));
    cuda::Event event = nullptr;
    EXPECT_EQ(cuda::error_invalid_context, cuEventCreate(&event, 0));
  }).join();
}

TEST_F(Contexts, OneCanBeCurrentToSeveralThreads) {
  std::thread([this] {
    ASSERT_EQ(cuda::success, cuCtxSetCurrent(context()));
    cuda::Device device = -1;
    EXPECT_EQ(cuda::success, cuCtxGetDevice(&device));
    EXPECT_EQ(0, device);
  }).join();
  EXPECT_EQ(context(), current());
}

TEST_F(Contexts, SettingNoneLeavesNone) {
  std::thread([this] {
    ASSERT_EQ(cuda::success, cuCtxSetCurrent(context()));
    ASSERT_EQ(cuda::success, cuCtxSetCurrent(nullptr));
    EXPECT_EQ(nullptr, current());
  }).join();
}

TEST_F(Contexts, HaveIdsThatAreNeverUsedAgain) {
  unsigned long long primary = 0;
  unsigned long long same = 0;
  ASSERT_EQ(cuda::success, cuCtxGetId(context(), &primary));
  ASSERT_EQ(cuda::success, cuCtxGetId(nullptr, &same)) << "none given: the current one";
  EXPECT_EQ(primary, same);
  unsigned long long first = 0;
  unsigned long long second = 0;
  for (auto* id : {&first, &second}) {
    cuda::Context made = nullptr;
    ASSERT_EQ(cuda::success, cuCtxCreate_v2(&made, 0, 0));
    ASSERT_EQ(cuda::success, cuCtxGetId(made, id));
    ASSERT_EQ(cuda::success, cuCtxDestroy_v2(made));
  }
  EXPECT_NE(primary, first);
  EXPECT_NE(first, second);
}

TEST_F(Contexts, KeepTheFlagsTheyWereMadeWith) {
  constexpr unsigned blocking_sync = 4;
  cuda::Context made = nullptr;
  ASSERT_EQ(cuda::success, cuCtxCreate_v2(&made, blocking_sync, 0));
  unsigned flags = 0;
  EXPECT_EQ(cuda::success, cuCtxGetFlags(&flags));
  EXPECT_EQ(blocking_sync, flags & 7U);
  EXPECT_EQ(cuda::success, cuCtxDestroy_v2(made));
}

TEST_F(Contexts, UnknownFlagsAreInvalid) {
  cuda::Context made = nullptr;
  EXPECT_EQ(cuda::error_invalid_value, cuCtxCreate_v2(&made, 0x10000, 0));
}

TEST_F(Contexts, CanBeMadeInTheNewWay) {
  cuda::Context made = nullptr;
  ASSERT_EQ(cuda::success, cuCtxCreate_v4(&made, nullptr, 0, 0));
  EXPECT_EQ(made, current());
  EXPECT_EQ(cuda::success, cuCtxDestroy_v2(made));
}

TEST_F(Contexts, HaveAnApiVersion) {
  unsigned version = 0;
  ASSERT_EQ(cuda::success, cuCtxGetApiVersion(nullptr, &version));
  EXPECT_GE(version, 3010U);
}

TEST_F(Contexts, ADestroyedOneTellsSoWhereItIsStillCurrent) {
  cuda::Context made = nullptr;
  ASSERT_EQ(cuda::success, cuCtxCreate_v2(&made, 0, 0));
  ASSERT_EQ(cuda::success, cuCtxPopCurrent_v2(nullptr));
  std::atomic<int> step{0};
  std::thread other([&] {
    EXPECT_EQ(cuda::success, cuCtxSetCurrent(made));
    step.store(1);
    step.notify_all();
    step.wait(1);
    Ptr pointer = 0;
    EXPECT_EQ(cuda::error_context_is_destroyed, cuMemAlloc_v2(&pointer, 64));
    EXPECT_EQ(cuda::error_context_is_destroyed, cuCtxSynchronize());
  });
  step.wait(0);
  EXPECT_EQ(cuda::success, cuCtxDestroy_v2(made));
  step.store(2);
  step.notify_all();
  other.join();
}

TEST_F(Contexts, TakeTheirMemoryWithThem) {
  cuda::Context made = nullptr;
  ASSERT_EQ(cuda::success, cuCtxCreate_v2(&made, 0, 0));
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAlloc_v2(&pointer, 4096));
  ASSERT_EQ(cuda::success, cuCtxDestroy_v2(made));
  unsigned type = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, pointer));
}

TEST_F(Contexts, ReachEachOthersMemoryOnOneDevice) {
  const DeviceBuffer buffer(64);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 7, 64));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  cuda::Context made = nullptr;
  ASSERT_EQ(cuda::success, cuCtxCreate_v2(&made, 0, 0));
  std::vector<std::uint8_t> bytes(64);
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(bytes.data(), buffer.at(), 64));
  EXPECT_EQ(std::vector<std::uint8_t>(64, 7), bytes);
  EXPECT_EQ(cuda::success, cuCtxDestroy_v2(made));
}

TEST_F(Contexts, HaveARangeOfPriorities) {
  int least = -1;
  int greatest = 1;
  ASSERT_EQ(cuda::success, cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_LE(greatest, least) << "lower numbers come first";
}

TEST_F(Contexts, AReleaseTooManyIsInvalid) {
  int count = 0;
  ASSERT_EQ(cuda::success, cuDeviceGetCount(&count));
  if (count < 2) GTEST_SKIP() << "needs a device whose primary context is not held; there is only one device";
  EXPECT_EQ(cuda::error_invalid_context, cuDevicePrimaryCtxRelease_v2(1));
}

}  // namespace
}  // namespace sluice::gpu_suite
