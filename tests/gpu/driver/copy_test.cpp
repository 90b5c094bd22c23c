// SPDX-License-Identifier: Apache-2.0
// Copies in every direction.
#include <thread>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Copies : public Driver {};

TEST_F(Copies, ThereAndBackAreTheSameBytes) {
  for (const std::size_t size : {1U, 7U, 4096U, 65537U, 3000001U}) {
    const auto expected = pattern(size, 1);
    const DeviceBuffer buffer(size);
    ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(buffer.at(), expected.data(), size));
    EXPECT_EQ(expected, buffer.bytes()) << size;
  }
}

TEST_F(Copies, LeaveTheRestAlone) {
  const DeviceBuffer buffer(1000);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 0xee, 1000));
  const auto middle = pattern(100, 2);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(buffer.at(333), middle.data(), 100));
  std::vector<std::uint8_t> expected(1000, 0xee);
  std::copy(middle.begin(), middle.end(), expected.begin() + 333);
  EXPECT_EQ(expected, buffer.bytes());

  std::vector<std::uint8_t> host(300, 0x11);
  ASSERT_EQ(cuda::success, cuMemcpyDtoH_v2(host.data() + 100, buffer.at(333), 100));
  std::vector<std::uint8_t> seen(300, 0x11);
  std::copy(middle.begin(), middle.end(), seen.begin() + 100);
  EXPECT_EQ(seen, host);
}

TEST_F(Copies, BetweenDeviceBuffersAreRight) {
  const auto expected = pattern(100000, 3);
  const DeviceBuffer from(100000);
  const DeviceBuffer to(100000);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(from.at(), expected.data(), expected.size()));
  ASSERT_EQ(cuda::success, cuMemcpyDtoD_v2(to.at(), from.at(), expected.size()));
  EXPECT_EQ(expected, to.bytes());
}

TEST_F(Copies, FindOutTheDirectionThemselves) {
  const auto expected = pattern(5000, 4);
  const DeviceBuffer first(5000);
  const DeviceBuffer second(5000);
  std::vector<std::uint8_t> back(5000);
  ASSERT_EQ(cuda::success, cuMemcpy(first.at(), reinterpret_cast<Ptr>(expected.data()), 5000));
  ASSERT_EQ(cuda::success, cuMemcpy(second.at(), first.at(), 5000));
  ASSERT_EQ(cuda::success, cuMemcpy(reinterpret_cast<Ptr>(back.data()), second.at(), 5000));
  EXPECT_EQ(expected, back);
}

TEST_F(Copies, OfNothingSucceed) {
  const DeviceBuffer buffer(64);
  std::uint8_t byte = 0;
  EXPECT_EQ(cuda::success, cuMemcpyHtoD_v2(buffer.at(), &byte, 0));
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(&byte, buffer.at(), 0));
}

TEST_F(Copies, ToMemoryThatWasFreedAreInvalid) {
  Ptr pointer = 0;
  ASSERT_EQ(cuda::success, cuMemAlloc_v2(&pointer, std::size_t{4} << 20U));
  ASSERT_EQ(cuda::success, cuMemFree_v2(pointer));
  std::uint8_t byte = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpyHtoD_v2(pointer, &byte, 1));
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpyDtoH_v2(&byte, pointer, 1));
}

TEST_F(Copies, BeyondTheEndOfAnAllocationAreInvalid) {
  const DeviceBuffer buffer(std::size_t{2} << 20U);
  const std::vector<std::uint8_t> host(std::size_t{64} << 20U);
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpyHtoD_v2(buffer.at(), host.data(), host.size()));
}

TEST_F(Copies, FromNowhereAreInvalid) {
  const DeviceBuffer buffer(64);
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpyHtoD_v2(buffer.at(), nullptr, 64));
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpyHtoD_v2(0, buffer.bytes().data(), 64));
}

TEST_F(Copies, NeedAContext) {
  const DeviceBuffer buffer(64);
  std::thread([&buffer] {
    std::uint8_t byte = 0;
    EXPECT_EQ(cuda::error_invalid_context, cuMemcpyHtoD_v2(buffer.at(), &byte, 1));
  }).join();
}

TEST_F(Copies, OnAStreamAreDoneWhenItIs) {
  const std::size_t size = std::size_t{3} << 20U;
  const PinnedBuffer from(size);
  const PinnedBuffer to(size);
  const auto expected = pattern(size, 5);
  std::copy(expected.begin(), expected.end(), from.data());
  const DeviceBuffer first(size);
  const DeviceBuffer second(size);
  const Stream stream;
  ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(first.at(), from.data(), size, stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyDtoDAsync_v2(second.at(), first.at(), size, stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(to.data(), second.at(), size, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), to.data()));
}

TEST_F(Copies, OnAStreamFindOutTheDirectionThemselves) {
  const PinnedBuffer from(4096);
  const auto expected = pattern(4096, 6);
  std::copy(expected.begin(), expected.end(), from.data());
  const DeviceBuffer buffer(4096);
  {
    const Stream stream;
    ASSERT_EQ(cuda::success, cuMemcpyAsync(buffer.at(), from.at(), 4096, stream.get()));
  }
  EXPECT_EQ(expected, buffer.bytes());
}

TEST_F(Copies, OnAStreamFromAndToPageableMemoryAreRight) {
  for (const std::size_t size : {100U, 5000000U}) {
    const auto expected = pattern(size, 7);
    std::vector<std::uint8_t> back(size);
    const DeviceBuffer buffer(size);
    const Stream stream;
    ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(buffer.at(), expected.data(), size, stream.get()));
    ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), buffer.at(), size, stream.get()));
    ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
    EXPECT_EQ(expected, back) << size;
  }
}

TEST_F(Copies, OfThePerThreadKindAreRight) {
  const auto expected = pattern(4096, 8);
  std::vector<std::uint8_t> back(4096);
  const DeviceBuffer buffer(4096);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2_ptds(buffer.at(), expected.data(), 4096));
  ASSERT_EQ(cuda::success, cuMemcpyDtoH_v2_ptds(back.data(), buffer.at(), 4096));
  EXPECT_EQ(expected, back);
}

TEST_F(Copies, OfManyThreadsAreRight) {
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < 4; ++index) {
    threads.emplace_back([this, index] {
      ASSERT_EQ(cuda::success, cuCtxSetCurrent(context()));
      for (unsigned round = 0; round < 20; ++round) {
        const auto expected = pattern(100000, index * 100 + round);
        const DeviceBuffer buffer(expected.size());
        ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(buffer.at(), expected.data(), expected.size()));
        EXPECT_EQ(expected, buffer.bytes());
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::gpu_suite
