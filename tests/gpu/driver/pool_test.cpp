// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation.
#include <algorithm>
#include <vector>

#include "loaded_kernel.h"
#include "shared_word.h"

namespace sluice::gpu_suite {
namespace {

class Pools : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    int supported = 0;
    ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&supported, 115, 0));
    if (supported == 0) GTEST_SKIP() << "this device has no memory pools";
  }
  static cuda::MemoryPool make_pool() {
    cuda::PoolProperties properties{};
    properties.type = cuda::allocation_pinned;
    properties.location = {cuda::location_device, 0};
    cuda::MemoryPool pool = nullptr;
    EXPECT_EQ(cuda::success, cuMemPoolCreate(&pool, &properties));
    return pool;
  }
  static std::uint64_t attribute(cuda::MemoryPool pool, int number) {
    std::uint64_t value = 0;
    EXPECT_EQ(cuda::success, cuMemPoolGetAttribute(pool, number, &value));
    return value;
  }
};

TEST_F(Pools, MemoryCanBeUsedBehindTheAllocationInTheStream) {
  const std::size_t size = 1000000;
  const PinnedBuffer back(size);
  const Stream stream;
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAllocAsync(&pointer, size, stream.get()));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(pointer, 5, size, stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), pointer, size, stream.get()));
  ASSERT_EQ(cuda::success, cuMemFreeAsync(pointer, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(5, back.data()[0]);
  EXPECT_EQ(5, back.data()[size - 1]);
}

TEST_F(Pools, FreedMemoryIsReachedByKernelsThatItsStreamWasGivenBefore) {
  const StoreKernel store;
  const PinnedBuffer back(4);
  const Stream stream;
  for (const bool of_a_pool : {true, false}) {
    SCOPED_TRACE(of_a_pool);
    Ptr pointer = 0;
    if (of_a_pool) {
      ASSERT_EQ(cuda::success, cuMemAllocAsync(&pointer, 4096, stream.get()));
    } else {
      ASSERT_EQ(cuda::success, cuMemAlloc_v2(&pointer, 4096));
    }
    ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
    std::fill_n(back.data(), 4, std::uint8_t{0});
    {
      Gate gate(stream.get());
      ASSERT_EQ(cuda::success, store.launch(stream.get(), pointer + 4, 0x04030201));
      ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), pointer + 4, 4, stream.get()));
      ASSERT_EQ(cuda::success, cuMemFreeAsync(pointer, stream.get()));
    }
    ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
    EXPECT_EQ((std::vector<std::uint8_t>{1, 2, 3, 4}), std::vector<std::uint8_t>(back.data(), back.data() + 4));
  }
}

TEST_F(Pools, FreedMemoryMayBeAllocatedAgainBehindTheFree) {
  const std::size_t size = 1000000;
  const PinnedBuffer back(size);
  const Stream stream;
  for (std::uint8_t round = 0; round < 20; ++round) {
    Ptr pointer = 0;
    ASSERT_EQ(cuda::success, cuMemAllocAsync(&pointer, size, stream.get()));
    ASSERT_EQ(cuda::success, cuMemsetD8Async(pointer, round, size, stream.get()));
    ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), pointer, size, stream.get()));
    ASSERT_EQ(cuda::success, cuMemFreeAsync(pointer, stream.get()));
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(19, back.data()[size - 1]);
}

TEST_F(Pools, MemoryIsDeviceMemory) {
  const Stream stream;
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAllocAsync(&pointer, 4096, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  unsigned type = 0;
  int ordinal = -1;
  EXPECT_EQ(cuda::success, cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, pointer));
  EXPECT_EQ(cuda::success, cuPointerGetAttribute(&ordinal, cuda::pointer_attribute_device_ordinal, pointer));
  EXPECT_EQ(cuda::memory_device, type);
  EXPECT_EQ(0, ordinal);
  EXPECT_EQ(cuda::success, cuMemFreeAsync(pointer, stream.get()));
}

TEST_F(Pools, MemoryCanBeFreedWithoutAStream) {
  const Stream stream;
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAllocAsync(&pointer, 4096, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(cuda::success, cuMemFree_v2(pointer));
}

TEST_F(Pools, ADeviceBeginsWithItsDefaultPool) {
  cuda::MemoryPool pool = nullptr;
  cuda::MemoryPool current = nullptr;
  ASSERT_EQ(cuda::success, cuDeviceGetDefaultMemPool(&pool, 0));
  ASSERT_EQ(cuda::success, cuDeviceGetMemPool(&current, 0));
  EXPECT_EQ(pool, current);
}

TEST_F(Pools, AnotherPoolCanBeMadeCurrent) {
  cuda::MemoryPool standard = nullptr;
  ASSERT_EQ(cuda::success, cuDeviceGetDefaultMemPool(&standard, 0));
  const auto pool = make_pool();
  ASSERT_EQ(cuda::success, cuDeviceSetMemPool(0, pool));
  const Stream stream;
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAllocAsync(&pointer, std::size_t{1} << 20U, stream.get()));
  EXPECT_GE(attribute(pool, cuda::pool_used_current), std::uint64_t{1} << 20U);
  EXPECT_EQ(cuda::success, cuMemFreeAsync(pointer, stream.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  ASSERT_EQ(cuda::success, cuDeviceSetMemPool(0, standard));
  EXPECT_EQ(cuda::success, cuMemPoolDestroy(pool));
}

TEST_F(Pools, CountWhatIsInUse) {
  const auto pool = make_pool();
  const Stream stream;
  EXPECT_EQ(0U, attribute(pool, cuda::pool_used_current));
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAllocFromPoolAsync(&pointer, std::size_t{1} << 20U, pool, stream.get()));
  EXPECT_GE(attribute(pool, cuda::pool_used_current), std::uint64_t{1} << 20U);
  EXPECT_GE(attribute(pool, cuda::pool_reserved_current), attribute(pool, cuda::pool_used_current));
  ASSERT_EQ(cuda::success, cuMemFreeAsync(pointer, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(0U, attribute(pool, cuda::pool_used_current));
  EXPECT_GE(attribute(pool, cuda::pool_used_high), std::uint64_t{1} << 20U);
  EXPECT_EQ(cuda::success, cuMemPoolDestroy(pool));
}

TEST_F(Pools, KeepWhatTheThresholdAllowsAndTrimTheRest) {
  const auto pool = make_pool();
  std::uint64_t threshold = std::uint64_t{64} << 20U;
  ASSERT_EQ(cuda::success, cuMemPoolSetAttribute(pool, cuda::pool_release_threshold, &threshold));
  EXPECT_EQ(threshold, attribute(pool, cuda::pool_release_threshold));
  const Stream stream;
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAllocFromPoolAsync(&pointer, std::size_t{1} << 20U, pool, stream.get()));
  ASSERT_EQ(cuda::success, cuMemFreeAsync(pointer, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_GE(attribute(pool, cuda::pool_reserved_current), std::uint64_t{1} << 20U);
  ASSERT_EQ(cuda::success, cuMemPoolTrimTo(pool, 0));
  EXPECT_EQ(0U, attribute(pool, cuda::pool_reserved_current));
  EXPECT_EQ(cuda::success, cuMemPoolDestroy(pool));
}

TEST_F(Pools, AFreeWaitsForItsTurn) {
  const std::size_t size = 65536;
  const PinnedBuffer back(size);
  const Stream held;
  const Stream other;
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAllocAsync(&pointer, size, held.get()));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(pointer, 1, size, held.get()));
  Gate gate(held.get());
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), pointer, size, held.get()));
  ASSERT_EQ(cuda::success, cuMemFreeAsync(pointer, held.get()));
  // Another stream that is not ordered behind the free must not be given the same memory and spoil it.
  Ptr elsewhere = 0;
  ASSERT_EQ(cuda::success, cuMemAllocAsync(&elsewhere, size, other.get()));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(elsewhere, 2, size, other.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(other.get()));
  gate.open();
  ASSERT_EQ(cuda::success, cuStreamSynchronize(held.get()));
  EXPECT_EQ(1, back.data()[0]);
  EXPECT_EQ(1, back.data()[size - 1]);
  EXPECT_EQ(cuda::success, cuMemFreeAsync(elsewhere, other.get()));
}

}  // namespace
}  // namespace sluice::gpu_suite
