// SPDX-License-Identifier: Apache-2.0
// Virtual memory management.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class VirtualMemory : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    int supported = 0;
    ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&supported, 102, 0));
    if (supported == 0) GTEST_SKIP() << "this device has no virtual memory management";
    ASSERT_EQ(cuda::success, cuMemGetAllocationGranularity(&granularity_, &properties_, cuda::granularity_minimum));
  }
  std::size_t granularity() const { return granularity_; }
  const cuda::AllocationProperties& properties() const { return properties_; }

  cuda::AllocationHandle create(std::size_t size) const {
    cuda::AllocationHandle handle = 0;
    EXPECT_EQ(cuda::success, cuMemCreate(&handle, size, &properties_, 0));
    return handle;
  }
  static Ptr reserve(std::size_t size) {
    Ptr start = 0;
    EXPECT_EQ(cuda::success, cuMemAddressReserve(&start, size, 0, 0, 0));
    return start;
  }
  static void allow(Ptr start, std::size_t size, int flags = cuda::access_read_write) {
    const cuda::AccessDescription access{{cuda::location_device, 0}, flags};
    EXPECT_EQ(cuda::success, cuMemSetAccess(start, size, &access, 1));
  }

 private:
  std::size_t granularity_ = 0;
  cuda::AllocationProperties properties_{
      cuda::allocation_pinned, cuda::handle_type_none, {cuda::location_device, 0}, nullptr, 0, 0, 0, {}};
};

TEST_F(VirtualMemory, TheGranularityIsAPowerOfTwo) {
  EXPECT_GT(granularity(), 0U);
  EXPECT_EQ(0U, granularity() & (granularity() - 1));
}

TEST_F(VirtualMemory, MappedMemoryHoldsWhatIsCopiedThere) {
  const std::size_t size = granularity();
  const Ptr start = reserve(size);
  EXPECT_EQ(0U, start % granularity());
  const auto memory = create(size);
  ASSERT_EQ(cuda::success, cuMemMap(start, size, 0, memory, 0));
  allow(start, size);
  const auto expected = pattern(size, 1);
  std::vector<std::uint8_t> back(size);
  EXPECT_EQ(cuda::success, cuMemcpyHtoD_v2(start, expected.data(), size));
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(back.data(), start, size));
  EXPECT_EQ(expected, back);
  EXPECT_EQ(cuda::success, cuMemUnmap(start, size));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, size));
}

TEST_F(VirtualMemory, ACopyMayCrossAdjacentMappings) {
  const std::size_t chunk = granularity();
  const Ptr start = reserve(3 * chunk);
  std::vector<cuda::AllocationHandle> chunks;
  // Mapped in another order than made, so that neighbours in one space are none in the other.
  for (int index = 0; index < 3; ++index) chunks.push_back(create(chunk));
  ASSERT_EQ(cuda::success, cuMemMap(start, chunk, 0, chunks[2], 0));
  ASSERT_EQ(cuda::success, cuMemMap(start + chunk, chunk, 0, chunks[0], 0));
  ASSERT_EQ(cuda::success, cuMemMap(start + 2 * chunk, chunk, 0, chunks[1], 0));
  allow(start, 3 * chunk);
  const std::size_t size = 2 * chunk;
  const Ptr inside = start + chunk / 2;
  const auto expected = pattern(size, 2);
  std::vector<std::uint8_t> back(size);
  EXPECT_EQ(cuda::success, cuMemcpyHtoD_v2(inside, expected.data(), size));
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(back.data(), inside, size));
  EXPECT_EQ(expected, back);
  EXPECT_EQ(cuda::success, cuMemUnmap(start, 3 * chunk));
  for (const auto memory : chunks) EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, 3 * chunk));
}

TEST_F(VirtualMemory, OneMemoryMayHaveTwoAddresses) {
  const std::size_t size = granularity();
  const Ptr start = reserve(2 * size);
  const auto memory = create(size);
  ASSERT_EQ(cuda::success, cuMemMap(start, size, 0, memory, 0));
  ASSERT_EQ(cuda::success, cuMemMap(start + size, size, 0, memory, 0));
  allow(start, 2 * size);
  const auto expected = pattern(1000, 3);
  std::vector<std::uint8_t> back(1000);
  EXPECT_EQ(cuda::success, cuMemcpyHtoD_v2(start + 77, expected.data(), 1000));
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(back.data(), start + size + 77, 1000));
  EXPECT_EQ(expected, back);
  EXPECT_EQ(cuda::success, cuMemUnmap(start, size));
  EXPECT_EQ(cuda::success, cuMemUnmap(start + size, size));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, 2 * size));
}

TEST_F(VirtualMemory, AReleasedHandleKeepsItsMemoryWhileItIsMapped) {
  const std::size_t size = granularity();
  const Ptr start = reserve(size);
  const auto memory = create(size);
  ASSERT_EQ(cuda::success, cuMemMap(start, size, 0, memory, 0));
  ASSERT_EQ(cuda::success, cuMemRelease(memory));
  allow(start, size);
  const auto expected = pattern(1000, 4);
  std::vector<std::uint8_t> back(1000);
  EXPECT_EQ(cuda::success, cuMemcpyHtoD_v2(start, expected.data(), 1000));
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(back.data(), start, 1000));
  EXPECT_EQ(expected, back);
  EXPECT_EQ(cuda::success, cuMemUnmap(start, size));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, size));
}

TEST_F(VirtualMemory, AMappingKnowsItsHandle) {
  const std::size_t size = granularity();
  const Ptr start = reserve(size);
  const auto memory = create(size);
  ASSERT_EQ(cuda::success, cuMemMap(start, size, 0, memory, 0));
  cuda::AllocationHandle found = 0;
  ASSERT_EQ(cuda::success, cuMemRetainAllocationHandle(&found, reinterpret_cast<void*>(start + 5)));
  EXPECT_EQ(memory, found);
  EXPECT_EQ(cuda::success, cuMemRelease(found));
  EXPECT_EQ(cuda::success, cuMemUnmap(start, size));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, size));
}

// What another process would get and do; between processes tests/callers plays it.
TEST_F(VirtualMemory, ADescriptorStandsForTheMemory) {
  const std::size_t size = granularity();
  cuda::AllocationProperties shareable = properties();
  shareable.handle_types = cuda::handle_type_posix_file_descriptor;
  const Ptr start = reserve(2 * size);
  cuda::AllocationHandle memory = 0;
  ASSERT_EQ(cuda::success, cuMemCreate(&memory, size, &shareable, 0));
  ASSERT_EQ(cuda::success, cuMemMap(start, size, 0, memory, 0));
  int descriptor = -1;
  ASSERT_EQ(cuda::success,
            cuMemExportToShareableHandle(&descriptor, memory, cuda::handle_type_posix_file_descriptor, 0));
  ASSERT_GE(descriptor, 0);
  cuda::AllocationHandle imported = 0;
  auto* const number = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  ASSERT_EQ(cuda::success, cuMemImportFromShareableHandle(&imported, number, cuda::handle_type_posix_file_descriptor));
  close(descriptor);
  ASSERT_EQ(cuda::success, cuMemMap(start + size, size, 0, imported, 0));
  allow(start, 2 * size);
  const auto expected = pattern(size, 5);
  std::vector<std::uint8_t> back(size);
  EXPECT_EQ(cuda::success, cuMemcpyHtoD_v2(start, expected.data(), size));
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(back.data(), start + size, size));
  EXPECT_EQ(expected, back);
  EXPECT_EQ(cuda::success, cuMemUnmap(start, size));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  std::fill(back.begin(), back.end(), 0);
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(back.data(), start + size, size));
  EXPECT_EQ(expected, back) << "it lives as long as it is mapped anywhere";
  EXPECT_EQ(cuda::success, cuMemUnmap(start + size, size));
  EXPECT_EQ(cuda::success, cuMemRelease(imported));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, 2 * size));
}

TEST_F(VirtualMemory, OnlyWhatWasMadeForItHasADescriptor) {
  const auto memory = create(granularity());
  int descriptor = -1;
  EXPECT_NE(cuda::success,
            cuMemExportToShareableHandle(&descriptor, memory, cuda::handle_type_posix_file_descriptor, 0));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
}

TEST_F(VirtualMemory, AHandleKnowsItsProperties) {
  const auto memory = create(granularity());
  cuda::AllocationProperties found{};
  ASSERT_EQ(cuda::success, cuMemGetAllocationPropertiesFromHandle(&found, memory));
  EXPECT_EQ(cuda::allocation_pinned, found.type);
  EXPECT_EQ(cuda::location_device, found.location.type);
  EXPECT_EQ(0, found.location.id);
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
}

TEST_F(VirtualMemory, TheRangeOfAnAddressIsItsReservation) {
  const std::size_t chunk = granularity();
  const Ptr start = reserve(4 * chunk);
  const auto memory = create(chunk);
  ASSERT_EQ(cuda::success, cuMemMap(start + chunk, chunk, 0, memory, 0));
  allow(start + chunk, chunk);
  Ptr range = 0;
  std::size_t size = 0;
  unsigned type = 0;
  const Ptr inside = start + chunk + 100;
  EXPECT_EQ(cuda::success, cuPointerGetAttribute(&range, cuda::pointer_attribute_range_start_addr, inside));
  EXPECT_EQ(cuda::success, cuPointerGetAttribute(&size, cuda::pointer_attribute_range_size, inside));
  EXPECT_EQ(cuda::success, cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, inside));
  EXPECT_EQ(start, range);
  EXPECT_EQ(4 * chunk, size);
  EXPECT_EQ(cuda::memory_device, type);
  EXPECT_EQ(cuda::success, cuMemUnmap(start + chunk, chunk));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, 4 * chunk));
}

// What tells how far a kernel may store: the range of an address is all that was reserved around it.
TEST_F(VirtualMemory, TheMappingOfAnAddressIsWhatIsMappedThere) {
  const std::size_t chunk = granularity();
  const Ptr start = reserve(3 * chunk);
  const auto memory = create(chunk);
  const auto two = create(2 * chunk);
  Ptr base = 0;
  std::size_t size = 0;
  std::array<int, 2> attributes{cuda::pointer_attribute_mapping_base_addr, cuda::pointer_attribute_mapping_size};
  std::array<void*, 2> values{&base, &size};
  const auto ask = [&](Ptr address) {
    base = 1;
    size = 1;
    EXPECT_EQ(cuda::success, cuPointerGetAttributes(2, attributes.data(), values.data(), address));
  };
  for (int round = 0; round < 2; ++round) {  // mapped again, another way round
    const std::size_t before = round == 0 ? 1 : 2;
    ASSERT_EQ(cuda::success, cuMemMap(start, before * chunk, 0, round == 0 ? memory : two, 0));
    ask(start + before * chunk - 100);
    EXPECT_EQ(start, base);
    EXPECT_EQ(before * chunk, size);
    ask(start + before * chunk);
    EXPECT_EQ(0U, base) << "reserved, not mapped";
    EXPECT_EQ(0U, size);
    ASSERT_EQ(cuda::success, cuMemMap(start + before * chunk, (3 - before) * chunk, 0, round == 0 ? two : memory, 0));
    ask(start + before * chunk);
    EXPECT_EQ(start + before * chunk, base);
    EXPECT_EQ((3 - before) * chunk, size);
    EXPECT_EQ(cuda::success, cuMemUnmap(start, 3 * chunk));
  }
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemRelease(two));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, 3 * chunk));
}

TEST_F(VirtualMemory, AccessIsAsItWasSet) {
  const std::size_t size = granularity();
  const Ptr start = reserve(size);
  const auto memory = create(size);
  ASSERT_EQ(cuda::success, cuMemMap(start, size, 0, memory, 0));
  allow(start, size);
  const cuda::MemoryLocation location{cuda::location_device, 0};
  unsigned long long flags = 77;
  ASSERT_EQ(cuda::success, cuMemGetAccess(&flags, &location, start));
  EXPECT_EQ(static_cast<unsigned long long>(cuda::access_read_write), flags);
  EXPECT_EQ(cuda::success, cuMemUnmap(start, size));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, size));
}

TEST_F(VirtualMemory, SizesMustBeMultiplesOfTheGranularity) {
  cuda::AllocationHandle memory = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemCreate(&memory, granularity() / 2, &properties(), 0));
  EXPECT_EQ(cuda::error_invalid_value, cuMemCreate(&memory, 0, &properties(), 0));
}

TEST_F(VirtualMemory, AReservationIsFreedAsItWasMade) {
  const std::size_t size = 2 * granularity();
  const Ptr start = reserve(size);
  EXPECT_EQ(cuda::error_invalid_value, cuMemAddressFree(start, granularity()));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, size));
}

TEST_F(VirtualMemory, WhatIsMappedCannotBeMappedOver) {
  const std::size_t size = granularity();
  const Ptr start = reserve(size);
  const auto memory = create(size);
  ASSERT_EQ(cuda::success, cuMemMap(start, size, 0, memory, 0));
  EXPECT_EQ(cuda::error_invalid_value, cuMemMap(start, size, 0, memory, 0));
  EXPECT_EQ(cuda::success, cuMemUnmap(start, size));
  EXPECT_EQ(cuda::success, cuMemMap(start, size, 0, memory, 0)) << "an unmapped range can be mapped again";
  EXPECT_EQ(cuda::success, cuMemUnmap(start, size));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, size));
}

TEST_F(VirtualMemory, OnlyReservedAddressesCanBeMapped) {
  const std::size_t size = granularity();
  const auto memory = create(size);
  const DeviceBuffer buffer(4 * size);
  const Ptr inside = (buffer.at() + size - 1) / size * size;
  EXPECT_NE(cuda::success, cuMemMap(inside, size, 0, memory, 0));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
}

TEST_F(VirtualMemory, CannotBeFreedLikeAnAllocation) {
  const std::size_t size = granularity();
  const Ptr start = reserve(size);
  const auto memory = create(size);
  ASSERT_EQ(cuda::success, cuMemMap(start, size, 0, memory, 0));
  allow(start, size);
  EXPECT_NE(cuda::success, cuMemFree_v2(start));
  EXPECT_EQ(cuda::success, cuMemUnmap(start, size));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, size));
}

TEST_F(VirtualMemory, WorksOnStreams) {
  const std::size_t chunk = granularity();
  const Ptr start = reserve(2 * chunk);
  const auto first = create(chunk);
  const auto second = create(chunk);
  ASSERT_EQ(cuda::success, cuMemMap(start, chunk, 0, first, 0));
  ASSERT_EQ(cuda::success, cuMemMap(start + chunk, chunk, 0, second, 0));
  allow(start, 2 * chunk);
  {
    const PinnedBuffer back(2 * chunk);
    const Stream stream;
    ASSERT_EQ(cuda::success, cuMemsetD8Async(start, 6, 2 * chunk, stream.get()));
    ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), start, 2 * chunk, stream.get()));
    ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
    EXPECT_EQ(static_cast<std::ptrdiff_t>(2 * chunk), std::count(back.data(), back.data() + 2 * chunk, 6));
  }
  EXPECT_EQ(cuda::success, cuMemUnmap(start, 2 * chunk));
  EXPECT_EQ(cuda::success, cuMemRelease(first));
  EXPECT_EQ(cuda::success, cuMemRelease(second));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, 2 * chunk));
}

}  // namespace
}  // namespace sluice::gpu_suite
