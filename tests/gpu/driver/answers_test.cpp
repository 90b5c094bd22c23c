// SPDX-License-Identifier: Apache-2.0
// What drivers answer where the documentation leaves it open, as seen on an H200: programs, and we, come across these.
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Answers : public Driver {};

// No context is current while this lives.
class NoContext {
 public:
  NoContext() { EXPECT_EQ(cuda::success, cuCtxPopCurrent_v2(&context_)); }
  ~NoContext() { EXPECT_EQ(cuda::success, cuCtxPushCurrent_v2(context_)); }
  NoContext(const NoContext&) = delete;
  NoContext& operator=(const NoContext&) = delete;

 private:
  cuda::Context context_ = nullptr;
};

TEST_F(Answers, AFillOnAStreamNeedsNoCurrentContext) {
  const Stream stream;
  const DeviceBuffer buffer(64);
  {
    const NoContext none;
    EXPECT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 5, 64, stream.get()));
    EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  }
  EXPECT_EQ(std::vector<std::uint8_t>(64, 5), buffer.bytes());
}

TEST_F(Answers, ACopyOnAStreamNeedsNoCurrentContext) {
  const Stream stream;
  const DeviceBuffer buffer(64);
  const PinnedBuffer host(64);
  std::fill_n(host.data(), 64, std::uint8_t{6});
  {
    const NoContext none;
    EXPECT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(buffer.at(), host.data(), 64, stream.get()));
    EXPECT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(host.data(), buffer.at(), 64, stream.get()));
    EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
    EXPECT_EQ(cuda::error_invalid_context, cuMemcpyHtoD_v2(buffer.at(), host.data(), 64));
  }
  EXPECT_EQ(std::vector<std::uint8_t>(64, 6), buffer.bytes());
}

TEST_F(Answers, MemoryOperationsAndHostFunctionsOnAStreamNeedNoCurrentContext) {
  const Stream stream;
  const PinnedBuffer word(4);
  const NoContext none;
  EXPECT_EQ(cuda::success, cuStreamWriteValue32_v2(stream.get(), word.at(), 1, 0));
  EXPECT_EQ(cuda::success, cuLaunchHostFunc(
                               stream.get(), [](void*) {}, nullptr));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
}

TEST_F(Answers, PinnedMemoryIsFreedAndRegistrationsEndWithoutACurrentContext) {
  void* pinned = nullptr;
  ASSERT_EQ(cuda::success, cuMemHostAlloc(&pinned, 4096, 0));
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(MAP_FAILED, page);
  ASSERT_EQ(cuda::success, cuMemHostRegister_v2(page, 4096, 0));
  {
    const NoContext none;
    EXPECT_EQ(cuda::success, cuMemFreeHost(pinned));
    EXPECT_EQ(cuda::success, cuMemHostUnregister(page));
  }
  ::munmap(page, 4096);
}

TEST_F(Answers, AFillOnTheDefaultStreamNeedsACurrentContext) {
  const DeviceBuffer buffer(64);
  const NoContext none;
  EXPECT_EQ(cuda::error_invalid_context, cuMemsetD8Async(buffer.at(), 5, 64, nullptr));
  EXPECT_EQ(cuda::error_invalid_context, cuMemsetD8_v2(buffer.at(), 5, 64));
}

TEST_F(Answers, StreamsCanBeAskedWithoutACurrentContext) {
  const Stream stream;
  const NoContext none;
  unsigned long long id = 0;
  int status = -1;
  EXPECT_EQ(cuda::success, cuStreamQuery(stream.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(cuda::success, cuStreamGetId(stream.get(), &id));
  EXPECT_EQ(cuda::success, cuStreamIsCapturing(stream.get(), &status));
  EXPECT_EQ(cuda::capture_none, status);
}

TEST_F(Answers, AnAddressRangeNeedsACurrentContext) {
  const DeviceBuffer buffer(64);
  const NoContext none;
  Ptr base = 0;
  std::size_t size = 0;
  EXPECT_EQ(cuda::error_invalid_context, cuMemGetAddressRange_v2(&base, &size, buffer.at()));
}

TEST_F(Answers, APointerCanBeAskedWithoutACurrentContext) {
  const DeviceBuffer buffer(64);
  const NoContext none;
  unsigned type = 0;
  EXPECT_EQ(cuda::success, cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, buffer.at()));
  EXPECT_EQ(cuda::memory_device, type);
}

TEST_F(Answers, FreeingNeedsNoCurrentContext) {
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAlloc_v2(&pointer, 64));
  const NoContext none;
  EXPECT_EQ(cuda::success, cuMemFree_v2(0));
  EXPECT_EQ(cuda::success, cuMemFree_v2(pointer));
}

TEST_F(Answers, AllocatingNeedsACurrentContext) {
  const NoContext none;
  Ptr pointer = 0;
  void* host = nullptr;
  EXPECT_EQ(cuda::error_invalid_context, cuMemAlloc_v2(&pointer, 64));
  EXPECT_EQ(cuda::error_invalid_context, cuMemHostAlloc(&host, 64, 0));
}

TEST_F(Answers, PinnedMemoryOfNoBytesIsNothing) {
  void* host = &host;
  EXPECT_EQ(cuda::success, cuMemHostAlloc(&host, 0, 0));
  EXPECT_EQ(nullptr, host);
}

TEST_F(Answers, FreeingNoPinnedMemoryIsFine) {
  EXPECT_EQ(cuda::success, cuMemFreeHost(nullptr));
}

TEST_F(Answers, PushingNoContextIsInvalid) {
  EXPECT_EQ(cuda::error_invalid_value, cuCtxPushCurrent_v2(nullptr));
}

TEST_F(Answers, AnAsynchronousAllocationOfNoBytesIsFine) {
  Ptr pointer = 0;
  EXPECT_EQ(cuda::success, cuMemAllocAsync(&pointer, 0, nullptr));
  EXPECT_EQ(cuda::success, cuMemFreeAsync(pointer, nullptr));
}

TEST_F(Answers, FreeingNothingAsynchronouslyIsFine) {
  EXPECT_EQ(cuda::success, cuMemFreeAsync(0, nullptr));
}

TEST_F(Answers, PlainMemoryCanBeFreedOnAStream) {
  const Stream stream;
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAlloc_v2(&pointer, 4096));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(pointer, 1, 4096, stream.get()));
  EXPECT_EQ(cuda::success, cuMemFreeAsync(pointer, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  unsigned type = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, pointer));
}

TEST_F(Answers, PinnedMemoryTakesSyncMemops) {
  const PinnedBuffer buffer(64);
  const unsigned on = 1;
  EXPECT_EQ(cuda::success, cuPointerSetAttribute(&on, cuda::pointer_attribute_sync_memops, buffer.at()));
}

TEST_F(Answers, ACopyFromTheHostTakesDeviceMemoryAsWell) {
  const DeviceBuffer buffer(64);
  const auto bytes = pattern(32, 1);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(buffer.at(), bytes.data(), 32));
  EXPECT_EQ(cuda::success, cuMemcpyHtoD_v2(buffer.at(32), reinterpret_cast<const void*>(buffer.at()), 32));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  const auto seen = buffer.bytes();
  EXPECT_EQ(bytes, std::vector<std::uint8_t>(seen.begin() + 32, seen.end()));
}

TEST_F(Answers, ACopyToTheHostDoesNotTakePageableMemoryAsDeviceMemory) {
  std::uint64_t local = 0;
  std::uint8_t byte = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpyDtoH_v2(&byte, reinterpret_cast<Ptr>(&local), 1));
}

TEST_F(Answers, ACopyDoesNotLeaveAnAllocation) {
  const DeviceBuffer buffer(std::size_t{4} << 20U);
  std::vector<std::uint8_t> bytes(4096);
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpyHtoD_v2(buffer.at(buffer.size() - 1), bytes.data(), bytes.size()));
}

// Eight pages; a test registers some of them.
class Registrations : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    void* const mapped = ::mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(MAP_FAILED, mapped);
    pages_ = static_cast<std::uint8_t*>(mapped);
    std::fill_n(pages_, 8 * page, std::uint8_t{3});
    ASSERT_EQ(cuda::success, cuMemHostRegister_v2(pages_ + page, 3 * page, 0));
  }
  void TearDown() override {
    EXPECT_EQ(cuda::success, cuMemHostUnregister(pages_ + page));
    ::munmap(pages_, 8 * page);
    Driver::TearDown();
  }
  std::uint8_t* registered() const { return pages_ + page; }
  static constexpr std::size_t page = 4096;

 private:
  std::uint8_t* pages_ = nullptr;
};

TEST_F(Registrations, EndByTheirStartOnly) {
  EXPECT_EQ(cuda::error_invalid_value, cuMemHostUnregister(registered() + 200));
  EXPECT_EQ(cuda::error_invalid_value, cuMemHostUnregister(registered() + page));
}

TEST_F(Registrations, HaveFlags) {
  unsigned flags = 0;
  EXPECT_EQ(cuda::success, cuMemHostGetFlags(&flags, registered()));
}

TEST_F(Registrations, AreNotFreedAsPinnedMemory) {
  EXPECT_EQ(cuda::error_invalid_value, cuMemFreeHost(registered()));
}

TEST_F(Registrations, AreNotLeftByACopy) {
  const DeviceBuffer buffer(8 * page);
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpyHtoD_v2(buffer.at(), registered(), 5 * page));
}

TEST_F(Registrations, AreEnteredByACopyThatBeginsBefore) {
  const DeviceBuffer buffer(8 * page);
  EXPECT_EQ(cuda::success, cuMemcpyHtoD_v2(buffer.at(), registered() - page, 2 * page));
}

TEST_F(Registrations, DoNotOverlap) {
  EXPECT_EQ(cuda::error_host_memory_already_registered, cuMemHostRegister_v2(registered() + page, 4 * page, 0));
}

TEST_F(Registrations, AreFoundAtTheirOwnAddress) {
  Ptr device = 0;
  ASSERT_EQ(cuda::success, cuMemHostGetDevicePointer_v2(&device, registered() + 100, 0));
  EXPECT_EQ(reinterpret_cast<Ptr>(registered() + 100), device);
}

TEST_F(Answers, AMappingHasNoOffset) {
  const cuda::AllocationProperties properties{
      cuda::allocation_pinned, cuda::handle_type_none, {cuda::location_device, 0}, nullptr, 0, 0, 0, {}};
  constexpr std::size_t chunk = std::size_t{2} << 20U;
  Ptr start = 0;
  cuda::AllocationHandle memory = 0;
  ASSERT_EQ(cuda::success, cuMemAddressReserve(&start, chunk, 0, 0, 0));
  ASSERT_EQ(cuda::success, cuMemCreate(&memory, 2 * chunk, &properties, 0));
  EXPECT_EQ(cuda::error_not_supported, cuMemMap(start, chunk, chunk, memory, 0));
  EXPECT_EQ(cuda::success, cuMemRelease(memory));
  EXPECT_EQ(cuda::success, cuMemAddressFree(start, chunk));
}

TEST_F(Answers, APciAddressNeedsRoom) {
  std::array<char, 32> text{};
  EXPECT_EQ(cuda::error_invalid_value, cuDeviceGetPCIBusId(text.data(), 5, 0));
  EXPECT_EQ(cuda::success, cuDeviceGetPCIBusId(text.data(), 13, 0));
}

TEST_F(Answers, ANameIsCutToItsRoom) {
  std::array<char, 4> text{'x', 'x', 'x', 'x'};
  EXPECT_EQ(cuda::success, cuDeviceGetName(text.data(), 4, 0));
  EXPECT_EQ('\0', text[3]);
}

TEST_F(Answers, WhatIsNoPciAddressIsInvalid) {
  cuda::Device device = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuDeviceGetByPCIBusId(&device, "nonsense"));
  EXPECT_EQ(cuda::error_invalid_device, cuDeviceGetByPCIBusId(&device, "fffe:1f:1f.7"));
}

TEST_F(Answers, APrimaryContextCannotBeDestroyed) {
  EXPECT_EQ(cuda::error_invalid_context, cuCtxDestroy_v2(context()));
}

// In a process of its own: a reset takes everything. Told by its first failure.
int device_after_reset_gone_wrong() {
  cuda::Context made = nullptr;
  cuda::Device device = 7;
  Ptr pointer = 0;
  if (cuInit(0) != cuda::success || cuDevicePrimaryCtxRetain(&made, 0) != cuda::success) return 1;
  if (cuCtxSetCurrent(made) != cuda::success || cuDevicePrimaryCtxReset_v2(0) != cuda::success) return 2;
  if (cuCtxGetDevice(&device) != cuda::success || device != 0) return 3;
  return cuMemAlloc_v2(&pointer, 64) == cuda::success ? 4 : 0;
}

TEST(Processes, AResetContextStillHasItsDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(device_after_reset_gone_wrong()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice::gpu_suite
