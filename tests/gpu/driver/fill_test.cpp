// SPDX-License-Identifier: Apache-2.0
// Filling memory with a value.
#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Fills : public Driver {};

TEST_F(Fills, OfBytesLeaveTheRestAlone) {
  const DeviceBuffer buffer(1000);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 1, 1000));
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(3), 9, 500));
  std::vector<std::uint8_t> expected(1000, 1);
  std::fill_n(expected.begin() + 3, 500, std::uint8_t{9});
  EXPECT_EQ(expected, buffer.bytes());
}

TEST_F(Fills, OfHalfWordsCountHalfWords) {
  const DeviceBuffer buffer(8);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 0, 8));
  ASSERT_EQ(cuda::success, cuMemsetD16_v2(buffer.at(2), 0x1234, 2));
  EXPECT_EQ((std::vector<std::uint8_t>{0, 0, 0x34, 0x12, 0x34, 0x12, 0, 0}), buffer.bytes());
}

TEST_F(Fills, OfWordsCountWords) {
  const DeviceBuffer buffer(12);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 0, 12));
  ASSERT_EQ(cuda::success, cuMemsetD32_v2(buffer.at(4), 0x12345678, 1));
  EXPECT_EQ((std::vector<std::uint8_t>{0, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0}), buffer.bytes());
}

TEST_F(Fills, MustBeAligned) {
  const DeviceBuffer buffer(64);
  EXPECT_EQ(cuda::error_invalid_value, cuMemsetD16_v2(buffer.at(1), 0, 2));
  EXPECT_EQ(cuda::error_invalid_value, cuMemsetD32_v2(buffer.at(2), 0, 2));
}

TEST_F(Fills, OnAStreamAreDoneWhenItIs) {
  const DeviceBuffer buffer(64);
  {
    const Stream stream;
    ASSERT_EQ(cuda::success, cuMemsetD8Async(buffer.at(), 1, 64, stream.get()));
    ASSERT_EQ(cuda::success, cuMemsetD16Async(buffer.at(16), 0x0202, 8, stream.get()));
    ASSERT_EQ(cuda::success, cuMemsetD32Async(buffer.at(32), 0x03030303, 4, stream.get()));
  }
  std::vector<std::uint8_t> expected(64, 1);
  std::fill_n(expected.begin() + 16, 16, std::uint8_t{2});
  std::fill_n(expected.begin() + 32, 16, std::uint8_t{3});
  EXPECT_EQ(expected, buffer.bytes());
}

TEST_F(Fills, OfNothingSucceed) {
  const DeviceBuffer buffer(64);
  EXPECT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 1, 0));
}

TEST_F(Fills, ReachPinnedHostMemory) {
  const PinnedBuffer buffer(64);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 42, 64));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  EXPECT_EQ(42, buffer.data()[63]);
}

}  // namespace
}  // namespace sluice::gpu_suite
