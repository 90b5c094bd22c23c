// SPDX-License-Identifier: Apache-2.0
// Pinned host memory.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class HostMemory : public Driver {};

constexpr std::size_t page = 4096;

// Whole pages of the process's own memory.
class Pages {
 public:
  explicit Pages(std::size_t size) : size_(size) {
    data_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(MAP_FAILED, data_);
    std::memset(data_, 1, size);
  }
  ~Pages() { ::munmap(data_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }

 private:
  std::size_t size_;
  void* data_ = nullptr;
};

TEST_F(HostMemory, AllocatedMemoryIsTheHosts) {
  const PinnedBuffer buffer(3 * page);
  std::memset(buffer.data(), 7, buffer.size());
  EXPECT_EQ(7, buffer.data()[buffer.size() - 1]);
}

TEST_F(HostMemory, AllocatingInTheOldWayWorksToo) {
  void* memory = nullptr;
  ASSERT_EQ(cuda::success, cuMemAllocHost_v2(&memory, page));
  std::memset(memory, 7, page);
  EXPECT_EQ(cuda::success, cuMemFreeHost(memory));
}

TEST_F(HostMemory, UnknownFlagsAreInvalid) {
  void* memory = nullptr;
  EXPECT_EQ(cuda::error_invalid_value, cuMemHostAlloc(&memory, page, 0x100));
}

TEST_F(HostMemory, FreedTwiceIsInvalidTheSecondTime) {
  void* memory = nullptr;
  ASSERT_EQ(cuda::success, cuMemHostAlloc(&memory, page, 0));
  ASSERT_EQ(cuda::success, cuMemFreeHost(memory));
  EXPECT_EQ(cuda::error_invalid_value, cuMemFreeHost(memory));
}

TEST_F(HostMemory, OrdinaryMemoryCannotBeFreedAsPinned) {
  const Pages pages(page);
  EXPECT_EQ(cuda::error_invalid_value, cuMemFreeHost(pages.data()));
}

TEST_F(HostMemory, TheDevicePointerIsTheHostPointer) {
  const PinnedBuffer buffer(page, cuda::host_alloc_device_map);
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemHostGetDevicePointer_v2(&pointer, buffer.data(), 0));
  EXPECT_EQ(buffer.at(), pointer);
  ASSERT_EQ(cuda::success, cuMemHostGetDevicePointer_v2(&pointer, buffer.data() + 100, 0));
  EXPECT_EQ(buffer.at(100), pointer);
}

TEST_F(HostMemory, ADevicePointerTakesNoFlags) {
  const PinnedBuffer buffer(page, cuda::host_alloc_device_map);
  Ptr pointer = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemHostGetDevicePointer_v2(&pointer, buffer.data(), 1));
}

TEST_F(HostMemory, OrdinaryMemoryHasNoDevicePointer) {
  const Pages pages(page);
  Ptr pointer = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemHostGetDevicePointer_v2(&pointer, pages.data(), 0));
}

TEST_F(HostMemory, RemembersItsFlags) {
  constexpr unsigned wanted = cuda::host_alloc_portable | cuda::host_alloc_device_map;
  const PinnedBuffer buffer(page, wanted);
  unsigned flags = 0;
  ASSERT_EQ(cuda::success, cuMemHostGetFlags(&flags, buffer.data()));
  EXPECT_EQ(wanted, flags & wanted);
}

TEST_F(HostMemory, OrdinaryMemoryHasNoFlags) {
  const Pages pages(page);
  unsigned flags = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemHostGetFlags(&flags, pages.data()));
}

TEST_F(HostMemory, CanBeRegisteredAndUnregistered) {
  const Pages pages(4 * page);
  ASSERT_EQ(cuda::success, cuMemHostRegister_v2(pages.data(), 4 * page, cuda::host_register_portable));
  unsigned type = 0;
  EXPECT_EQ(cuda::success, cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type,
                                                 reinterpret_cast<Ptr>(pages.data() + page)));
  EXPECT_EQ(cuda::memory_host, type);
  ASSERT_EQ(cuda::success, cuMemHostUnregister(pages.data()));
  EXPECT_EQ(cuda::error_invalid_value, cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type,
                                                             reinterpret_cast<Ptr>(pages.data() + page)));
}

TEST_F(HostMemory, RegisteredTwiceIsRefusedTheSecondTime) {
  const Pages pages(4 * page);
  ASSERT_EQ(cuda::success, cuMemHostRegister_v2(pages.data(), 4 * page, 0));
  EXPECT_EQ(cuda::error_host_memory_already_registered, cuMemHostRegister_v2(pages.data(), 4 * page, 0));
  EXPECT_EQ(cuda::success, cuMemHostUnregister(pages.data()));
}

TEST_F(HostMemory, WhatIsNotRegisteredCannotBeUnregistered) {
  const Pages pages(page);
  EXPECT_EQ(cuda::error_host_memory_not_registered, cuMemHostUnregister(pages.data()));
}

TEST_F(HostMemory, RegisteringNothingIsInvalid) {
  const Pages pages(page);
  EXPECT_EQ(cuda::error_invalid_value, cuMemHostRegister_v2(pages.data(), 0, 0));
  EXPECT_EQ(cuda::error_invalid_value, cuMemHostRegister_v2(nullptr, page, 0));
}

TEST_F(HostMemory, RegisteredMemoryHasItsOwnAddressOnTheDevice) {
  const Pages pages(page);
  ASSERT_EQ(cuda::success, cuMemHostRegister_v2(pages.data(), page, cuda::host_register_device_map));
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemHostGetDevicePointer_v2(&pointer, pages.data(), 0));
  EXPECT_EQ(reinterpret_cast<Ptr>(pages.data()), pointer);
  EXPECT_EQ(cuda::success, cuMemHostUnregister(pages.data()));
}

TEST_F(HostMemory, CopiesFromRegisteredMemoryAreRight) {
  const Pages pages(4 * page);
  const auto expected = pattern(4 * page, 3);
  std::memcpy(pages.data(), expected.data(), expected.size());
  ASSERT_EQ(cuda::success, cuMemHostRegister_v2(pages.data(), 4 * page, 0));
  const DeviceBuffer buffer(4 * page);
  {
    const Stream stream;
    ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(buffer.at(), pages.data(), 4 * page, stream.get()));
  }
  EXPECT_EQ(expected, buffer.bytes());
  EXPECT_EQ(cuda::success, cuMemHostUnregister(pages.data()));
}

}  // namespace
}  // namespace sluice::gpu_suite
