// SPDX-License-Identifier: Apache-2.0
// Device and managed memory.
#include <set>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Memory : public Driver {};

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

TEST_F(Memory, AllocatingNothingIsInvalid) {
  Ptr pointer = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemAlloc_v2(&pointer, 0));
}

TEST_F(Memory, ANullPointerForTheAnswerIsInvalid) {
  EXPECT_EQ(cuda::error_invalid_value, cuMemAlloc_v2(nullptr, 64));
}

TEST_F(Memory, MoreThanThereIsCannotBeHad) {
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cuda::success, cuMemGetInfo_v2(&free, &total));
  Ptr pointer = 0;
  EXPECT_EQ(cuda::error_out_of_memory, cuMemAlloc_v2(&pointer, total + mebibyte));
}

TEST_F(Memory, IsAlignedTo256) {
  for (const std::size_t size : {1, 3, 255, 257, 5000, 3000000}) {
    const DeviceBuffer buffer(size);
    EXPECT_EQ(0U, buffer.at() % 256) << size;
  }
}

TEST_F(Memory, AllocationsDoNotOverlap) {
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  for (unsigned index = 0; index < 64; ++index) {
    buffers.push_back(std::make_unique<DeviceBuffer>(1000 + 7919 * index));
  }
  for (unsigned index = 0; index < 64; ++index) {
    ASSERT_EQ(cuda::success,
              cuMemsetD8_v2(buffers[index]->at(), static_cast<std::uint8_t>(index), buffers[index]->size()));
  }
  for (unsigned index = 0; index < 64; ++index) {
    EXPECT_EQ(std::vector<std::uint8_t>(buffers[index]->size(), static_cast<std::uint8_t>(index)),
              buffers[index]->bytes());
  }
}

TEST_F(Memory, FreeingNullDoesNothing) {
  EXPECT_EQ(cuda::success, cuMemFree_v2(0));
}

TEST_F(Memory, FreedTwiceIsInvalidTheSecondTime) {
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAlloc_v2(&pointer, 4 * mebibyte));
  ASSERT_EQ(cuda::success, cuMemFree_v2(pointer));
  EXPECT_EQ(cuda::error_invalid_value, cuMemFree_v2(pointer));
}

TEST_F(Memory, OnlyTheStartOfAnAllocationCanBeFreed) {
  const DeviceBuffer buffer(4096);
  EXPECT_EQ(cuda::error_invalid_value, cuMemFree_v2(buffer.at(1024)));
}

TEST_F(Memory, HostMemoryCannotBeFreedAsDeviceMemory) {
  std::uint64_t local = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemFree_v2(reinterpret_cast<Ptr>(&local)));
}

TEST_F(Memory, TheRangeOfAnAddressIsItsAllocation) {
  const DeviceBuffer buffer(8 * mebibyte);
  Ptr base = 0;
  std::size_t size = 0;
  ASSERT_EQ(cuda::success, cuMemGetAddressRange_v2(&base, &size, buffer.at(5 * mebibyte)));
  EXPECT_EQ(buffer.at(), base);
  EXPECT_EQ(buffer.size(), size);
  EXPECT_EQ(cuda::success, cuMemGetAddressRange_v2(&base, nullptr, buffer.at()));
  EXPECT_EQ(cuda::success, cuMemGetAddressRange_v2(nullptr, &size, buffer.at()));
}

TEST_F(Memory, AnAddressThatIsNoAllocationHasNoRange) {
  std::uint64_t local = 0;
  Ptr base = 0;
  std::size_t size = 0;
  EXPECT_NE(cuda::success, cuMemGetAddressRange_v2(&base, &size, reinterpret_cast<Ptr>(&local)));
}

TEST_F(Memory, TheInformationIsConsistent) {
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cuda::success, cuMemGetInfo_v2(&free, &total));
  EXPECT_LE(free, total);
  EXPECT_GT(free, 0U);
}

TEST_F(Memory, APitchHoldsARow) {
  Ptr pointer = 0;
  std::size_t pitch = 0;
  ASSERT_EQ(cuda::success, cuMemAllocPitch_v2(&pointer, &pitch, 1001, 17, 4));
  EXPECT_GE(pitch, 1001U);
  EXPECT_EQ(cuda::success, cuMemsetD8_v2(pointer, 1, pitch * 17));
  EXPECT_EQ(cuda::success, cuMemFree_v2(pointer));
}

TEST_F(Memory, APitchNeedsAKnownElementSize) {
  Ptr pointer = 0;
  std::size_t pitch = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemAllocPitch_v2(&pointer, &pitch, 1001, 17, 3));
}

class ManagedMemory : public Driver {};

TEST_F(ManagedMemory, IsOneForHostAndDevice) {
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAllocManaged(&pointer, 4096, cuda::attach_global));
  auto* const bytes = reinterpret_cast<std::uint8_t*>(pointer);
  bytes[17] = 99;
  std::uint8_t seen = 0;
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(&seen, pointer + 17, 1));
  EXPECT_EQ(99, seen);
  EXPECT_EQ(cuda::success, cuMemsetD8_v2(pointer, 5, 4096));
  EXPECT_EQ(cuda::success, cuCtxSynchronize());
  EXPECT_EQ(5, bytes[17]);
  EXPECT_EQ(cuda::success, cuMemFree_v2(pointer));
}

TEST_F(ManagedMemory, NeedsFlagsThatSayWhoIsAttached) {
  Ptr pointer = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemAllocManaged(&pointer, 4096, 0));
  EXPECT_EQ(cuda::error_invalid_value, cuMemAllocManaged(&pointer, 0, cuda::attach_global));
}

}  // namespace
}  // namespace sluice::gpu_suite
