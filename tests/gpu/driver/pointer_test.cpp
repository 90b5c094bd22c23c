// SPDX-License-Identifier: Apache-2.0
// What the driver says of an address.
#include <array>
#include <set>

#include "fixture.h"
#include "shared_word.h"

namespace sluice::gpu_suite {
namespace {

class Pointers : public Driver {};

template <typename Value>
Value attribute(int number, Ptr pointer) {
  Value value{};
  EXPECT_EQ(cuda::success, cuPointerGetAttribute(&value, number, pointer)) << "attribute " << number;
  return value;
}

unsigned long long buffer_id(Ptr pointer) {
  return attribute<unsigned long long>(cuda::pointer_attribute_buffer_id, pointer);
}

TEST_F(Pointers, OfDeviceMemoryAreDevicePointers) {
  const DeviceBuffer buffer(4096);
  const Ptr inside = buffer.at(1000);
  EXPECT_EQ(cuda::memory_device, attribute<unsigned>(cuda::pointer_attribute_memory_type, inside));
  EXPECT_EQ(context(), attribute<cuda::Context>(cuda::pointer_attribute_context, inside));
  EXPECT_EQ(0, attribute<int>(cuda::pointer_attribute_device_ordinal, inside));
  EXPECT_EQ(inside, attribute<Ptr>(cuda::pointer_attribute_device_pointer, inside));
  EXPECT_EQ(0U, attribute<unsigned>(cuda::pointer_attribute_is_managed, inside));
}

TEST_F(Pointers, OfDeviceMemoryKnowTheirRange) {
  const DeviceBuffer buffer(std::size_t{8} << 20U);
  const Ptr inside = buffer.at(std::size_t{5} << 20U);
  EXPECT_EQ(buffer.at(), attribute<Ptr>(cuda::pointer_attribute_range_start_addr, inside));
  EXPECT_EQ(buffer.size(), attribute<std::size_t>(cuda::pointer_attribute_range_size, inside));
}

TEST_F(Pointers, OfDeviceMemoryHaveNoHostPointer) {
  const DeviceBuffer buffer(4096);
  void* host = nullptr;
  EXPECT_EQ(cuda::error_invalid_value, cuPointerGetAttribute(&host, cuda::pointer_attribute_host_pointer, buffer.at()));
}

TEST_F(Pointers, OfPinnedMemoryAreHostPointers) {
  const PinnedBuffer buffer(4096);
  EXPECT_EQ(cuda::memory_host, attribute<unsigned>(cuda::pointer_attribute_memory_type, buffer.at(9)));
  EXPECT_EQ(buffer.data() + 9, attribute<void*>(cuda::pointer_attribute_host_pointer, buffer.at(9)));
  EXPECT_EQ(buffer.at(9), attribute<Ptr>(cuda::pointer_attribute_device_pointer, buffer.at(9)));
  EXPECT_EQ(0U, attribute<unsigned>(cuda::pointer_attribute_is_managed, buffer.at()));
}

TEST_F(Pointers, OfManagedMemorySaySo) {
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAllocManaged(&pointer, 4096, cuda::attach_global));
  EXPECT_NE(0U, attribute<unsigned>(cuda::pointer_attribute_is_managed, pointer) & 0xffU);
  EXPECT_EQ(reinterpret_cast<void*>(pointer), attribute<void*>(cuda::pointer_attribute_host_pointer, pointer));
  EXPECT_EQ(cuda::success, cuMemFree_v2(pointer));
}

TEST_F(Pointers, ToUnknownMemoryAreInvalidOneByOne) {
  std::uint64_t local = 0;
  unsigned type = 0;
  EXPECT_EQ(cuda::error_invalid_value,
            cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, reinterpret_cast<Ptr>(&local)));
}

TEST_F(Pointers, ToUnknownMemoryGiveNothingAllAtOnce) {
  std::uint64_t local = 0;
  unsigned type = 77;
  unsigned managed = 77;
  unsigned long long id = 77;
  cuda::Context owner = context();
  std::array<int, 4> attributes{cuda::pointer_attribute_memory_type, cuda::pointer_attribute_is_managed,
                                cuda::pointer_attribute_buffer_id, cuda::pointer_attribute_context};
  std::array<void*, 4> values{&type, &managed, &id, &owner};
  ASSERT_EQ(cuda::success, cuPointerGetAttributes(4, attributes.data(), values.data(), reinterpret_cast<Ptr>(&local)));
  EXPECT_EQ(0U, type);
  EXPECT_EQ(0U, managed & 0xffU);
  EXPECT_EQ(0U, id);
  EXPECT_EQ(nullptr, owner);
}

TEST_F(Pointers, GiveManyAttributesAtOnce) {
  const DeviceBuffer buffer(std::size_t{4} << 20U);
  unsigned type = 0;
  int ordinal = -1;
  Ptr start = 0;
  std::size_t size = 0;
  unsigned long long id = 0;
  std::array<int, 5> attributes{cuda::pointer_attribute_memory_type, cuda::pointer_attribute_device_ordinal,
                                cuda::pointer_attribute_range_start_addr, cuda::pointer_attribute_range_size,
                                cuda::pointer_attribute_buffer_id};
  std::array<void*, 5> values{&type, &ordinal, &start, &size, &id};
  ASSERT_EQ(cuda::success, cuPointerGetAttributes(5, attributes.data(), values.data(), buffer.at(77)));
  EXPECT_EQ(cuda::memory_device, type);
  EXPECT_EQ(0, ordinal);
  EXPECT_EQ(buffer.at(), start);
  EXPECT_EQ(buffer.size(), size);
  EXPECT_EQ(buffer_id(buffer.at()), id);
}

TEST_F(Pointers, AHostPointerThatThereIsNotComesBackNullAmongMany) {
  const DeviceBuffer buffer(4096);
  void* host = &host;
  std::array<int, 1> attributes{cuda::pointer_attribute_host_pointer};
  std::array<void*, 1> values{&host};
  ASSERT_EQ(cuda::success, cuPointerGetAttributes(1, attributes.data(), values.data(), buffer.at()));
  EXPECT_EQ(nullptr, host);
}

TEST_F(Pointers, HaveTheSameBufferIdThroughoutAnAllocation) {
  const DeviceBuffer buffer(std::size_t{4} << 20U);
  EXPECT_EQ(buffer_id(buffer.at()), buffer_id(buffer.at(buffer.size() - 1)));
}

TEST_F(Pointers, BufferIdsAreNeverUsedAgain) {
  std::set<unsigned long long> ids;
  std::set<Ptr> addresses;
  for (int round = 0; round < 32; ++round) {
    const DeviceBuffer buffer(std::size_t{2} << 20U);
    addresses.insert(buffer.at());
    EXPECT_TRUE(ids.insert(buffer_id(buffer.at())).second) << "round " << round;
  }
  if (driver_is_soft()) {
    EXPECT_EQ(1U, addresses.size()) << "the addresses are used again, the ids are not";
  }
}

TEST_F(Pointers, FreedMemoryIsUnknown) {
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAlloc_v2(&pointer, std::size_t{4} << 20U));
  ASSERT_EQ(cuda::success, cuMemFree_v2(pointer));
  unsigned type = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, pointer));
}

TEST_F(Pointers, NeedNoCurrentContextToBeAskedAbout) {
  const DeviceBuffer buffer(4096);
  cuda::Context popped = nullptr;
  ASSERT_EQ(cuda::success, cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(cuda::memory_device, attribute<unsigned>(cuda::pointer_attribute_memory_type, buffer.at()));
  EXPECT_EQ(context(), attribute<cuda::Context>(cuda::pointer_attribute_context, buffer.at()));
  ASSERT_EQ(cuda::success, cuCtxPushCurrent_v2(popped));
}

TEST_F(Pointers, CanBeMadeToSynchronise) {
  const DeviceBuffer buffer(4096);
  EXPECT_EQ(0U, attribute<unsigned>(cuda::pointer_attribute_sync_memops, buffer.at()) & 0xffU);
  const unsigned on = 1;
  ASSERT_EQ(cuda::success, cuPointerSetAttribute(&on, cuda::pointer_attribute_sync_memops, buffer.at()));
  EXPECT_EQ(1U, attribute<unsigned>(cuda::pointer_attribute_sync_memops, buffer.at()) & 0xffU);
}

// Between a gate and what waits behind it: a library may set it while the program's streams wait for the program.
TEST_F(Pointers, AreMadeToSynchroniseWhateverStreamsWaitFor) {
  const DeviceBuffer buffer(4096);
  const Shared<std::uint32_t> gate(0);
  ASSERT_EQ(cuda::success, cuStreamWaitValue32_v2(nullptr, gate.at(), 1, cuda::wait_value_geq));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 4096, nullptr));
  const unsigned on = 1;
  EXPECT_EQ(cuda::success, cuPointerSetAttribute(&on, cuda::pointer_attribute_sync_memops, buffer.at()));
  gate.store(1);
  EXPECT_EQ(cuda::success, cuStreamSynchronize(nullptr));
}

TEST_F(Pointers, OtherAttributesCannotBeSet) {
  const DeviceBuffer buffer(4096);
  const unsigned on = 1;
  EXPECT_EQ(cuda::error_invalid_value, cuPointerSetAttribute(&on, cuda::pointer_attribute_is_managed, buffer.at()));
}

TEST_F(Pointers, AnAttributeThatDoesNotExistIsInvalid) {
  const DeviceBuffer buffer(4096);
  std::uint64_t value = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuPointerGetAttribute(&value, 0, buffer.at()));
  EXPECT_EQ(cuda::error_invalid_value, cuPointerGetAttribute(&value, 100000, buffer.at()));
}

}  // namespace
}  // namespace sluice::gpu_suite
