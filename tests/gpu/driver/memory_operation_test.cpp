// SPDX-License-Identifier: Apache-2.0
// Streams that write a value to memory, and streams that wait for one.
#include <array>

#include "shared_word.h"
#include "waiting_streams.h"

namespace sluice::gpu_suite {
namespace {

class MemoryOperations : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    int supported = 0;
    ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&supported, 122, 0));
    if (supported == 0) GTEST_SKIP() << "this device has no stream memory operations";
  }
};

TEST_F(MemoryOperations, AWriteReachesHostMemory) {
  const Shared<std::uint32_t> narrow(0);
  const Shared<std::uint64_t> wide(0);
  const Stream stream;
  ASSERT_EQ(cuda::success, cuStreamWriteValue32_v2(stream.get(), narrow.at(), 0x12345678, 0));
  ASSERT_EQ(cuda::success, cuStreamWriteValue64_v2(stream.get(), wide.at(), 0x123456789abcdef0, 0));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(0x12345678U, narrow.load());
  EXPECT_EQ(0x123456789abcdef0U, wide.load());
}

TEST_F(MemoryOperations, AWriteReachesDeviceMemoryAndNothingBesideIt) {
  const DeviceBuffer buffer(16);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 0xee, 16));
  const Stream stream;
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  ASSERT_EQ(cuda::success, cuStreamWriteValue32_v2(stream.get(), buffer.at(4), 0x04030201, 0));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  std::vector<std::uint8_t> expected(16, 0xee);
  for (unsigned index = 0; index < 4; ++index) expected[4 + index] = static_cast<std::uint8_t>(index + 1);
  EXPECT_EQ(expected, buffer.bytes());
}

TEST_F(MemoryOperations, AWriteComesBehindTheWorkBeforeIt) {
  const std::size_t size = std::size_t{4} << 20U;
  const Shared<std::uint32_t> flag(0);
  const DeviceBuffer device(size);
  const PinnedBuffer host(size);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(device.at(), 7, size));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  const Stream stream;
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(host.data(), device.at(), size, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamWriteValue32_v2(stream.get(), flag.at(), 1, 0));
  while (flag.load() == 0) {
  }
  EXPECT_EQ(7, host.data()[0]);
  EXPECT_EQ(7, host.data()[size - 1]);
}

// The flag is for the older form of the call; driver 580 on an H200 refuses it in this one.
TEST_F(MemoryOperations, AWriteWithoutABarrierIsRefused) {
  const Shared<std::uint32_t> flag(0);
  const Stream stream;
  EXPECT_EQ(cuda::error_invalid_value,
            cuStreamWriteValue32_v2(stream.get(), flag.at(), 9, cuda::write_value_no_memory_barrier));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(0U, flag.load());
}

// Waits on `before`, for which the condition does not hold; then the host writes `after`.
template <typename Word>
void expect_held_until(Word before, Word after, Word value, unsigned condition) {
  const Shared<Word> word(before);
  const Stream stream;
  if constexpr (sizeof(Word) == 4) {
    ASSERT_EQ(cuda::success, cuStreamWaitValue32_v2(stream.get(), word.at(), value, condition));
  } else {
    ASSERT_EQ(cuda::success, cuStreamWaitValue64_v2(stream.get(), word.at(), value, condition));
  }
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(stream.get()));
  word.store(after);
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
}

TEST_F(MemoryOperations, WaitingForAtLeast) {
  expect_held_until<std::uint32_t>(4, 5, 5, cuda::wait_value_geq);
  expect_held_until<std::uint32_t>(4, 100, 5, cuda::wait_value_geq);
  expect_held_until<std::uint64_t>(4, 5, 5, cuda::wait_value_geq);
}

TEST_F(MemoryOperations, WaitingForAtLeastGoesRound) {
  expect_held_until<std::uint32_t>(0xfffffff0U, 2, 1, cuda::wait_value_geq);
  expect_held_until<std::uint64_t>(~std::uint64_t{15}, 2, 1, cuda::wait_value_geq);
}

TEST_F(MemoryOperations, WaitingForEqual) {
  expect_held_until<std::uint32_t>(6, 5, 5, cuda::wait_value_eq);
  expect_held_until<std::uint64_t>(std::uint64_t{1} << 40U, std::uint64_t{1} << 41U, std::uint64_t{1} << 41U,
                                   cuda::wait_value_eq);
}

TEST_F(MemoryOperations, WaitingForOneOfSomeBits) {
  expect_held_until<std::uint32_t>(0xf0, 0x01, 0x0f, cuda::wait_value_and);
  expect_held_until<std::uint64_t>(0xf0, std::uint64_t{1} << 63U, std::uint64_t{3} << 62U, cuda::wait_value_and);
}

TEST_F(MemoryOperations, WaitingForABitThatIsNowhereSet) {
  int supported = 0;
  ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&supported, 123, 0));
  if (supported == 0) GTEST_SKIP() << "this device cannot wait for NOR";
  expect_held_until<std::uint32_t>(0x0fffffff, 0x0ffffffe, 0xf0000000, cuda::wait_value_nor);
  constexpr std::uint64_t upper = std::uint64_t{0xf} << 60U;
  expect_held_until<std::uint64_t>(~upper, ~upper - 1, upper, cuda::wait_value_nor);
}

TEST_F(MemoryOperations, WhatHoldsAlreadyIsNotWaitedFor) {
  const Shared<std::uint32_t> word(5);
  const Stream stream;
  ASSERT_EQ(cuda::success, cuStreamWaitValue32_v2(stream.get(), word.at(), 5, cuda::wait_value_eq));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
}

TEST_F(MemoryOperations, OneStreamReleasesAnother) {
  const DeviceBuffer word(4);
  const DeviceBuffer data(4096);
  ASSERT_EQ(cuda::success, cuMemsetD32_v2(word.at(), 0, 1));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  const Stream waits;
  const Stream writes;
  ASSERT_EQ(cuda::success, cuStreamWaitValue32_v2(waits.get(), word.at(), 1, cuda::wait_value_eq));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(data.at(), 3, 4096, waits.get()));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(waits.get()));
  ASSERT_EQ(cuda::success, cuStreamWriteValue32_v2(writes.get(), word.at(), 1, 0));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(waits.get()));
  EXPECT_EQ(std::vector<std::uint8_t>(4096, 3), data.bytes());
}

// Copies of an engine are in no queue that they take: those to the host; those of 32 KiB or more; and those of two
// rows, wherever these lie.
TEST_F(MemoryOperations, StreamsThatWaitHoldUpNoCopyOfAnEngine) {
  const PinnedBuffer host(80000);
  const DeviceBuffer device(80000);
  const WaitingStreams waiting;
  const Stream engine;
  ASSERT_NO_FATAL_FAILURE(waiting.wait());
  for (const std::size_t at : {0, 1, 3, 512}) {
    for (const std::size_t width : {1, 2, 3, 1000, 2047, 2048, 12288, 16383}) {
      const cuda::Copy2D rows = two_rows(device.at(2 * at), host.data() + at, width);
      EXPECT_EQ(cuda::success, cuMemcpy2DAsync_v2(&rows, engine.get()));
      EXPECT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(host.data() + at, device.at(2 * at), width, engine.get()));
    }
    for (const std::size_t size : {32768, 32769, 70001}) {
      EXPECT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(device.at(2 * at), host.data() + at, size, engine.get()));
    }
  }
  EXPECT_EQ(cuda::success,
            cuStreamWriteValue32_v2(engine.get(), waiting.word(), 0, 0));  // goes the way of the copy before it
  waiting.expect_passed_by(engine.get());
}

TEST_F(MemoryOperations, DataIsReadOnlyWhenTheValueHasCome) {
  const Shared<std::uint64_t> word(0);
  const PinnedBuffer from(4096);
  const DeviceBuffer to(4096);
  std::fill_n(from.data(), 4096, std::uint8_t{1});
  const Stream stream;
  ASSERT_EQ(cuda::success, cuStreamWaitValue64_v2(stream.get(), word.at(), 1, cuda::wait_value_geq));
  ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(to.at(), from.data(), 4096, stream.get()));
  std::fill_n(from.data(), 4096, std::uint8_t{2});
  word.store(1);
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(std::vector<std::uint8_t>(4096, 2), to.bytes());
}

TEST_F(MemoryOperations, ComeInBatches) {
  const Shared<std::uint32_t> gate(0);
  const Shared<std::uint32_t> narrow(0);
  const Shared<std::uint64_t> wide(0);
  const Stream stream;
  std::array<cuda::BatchMemoryOperation, 3> operations{};
  operations[0].operation = cuda::batch_wait_value_32;
  operations[0].address = gate.at();
  operations[0].value = 1;
  operations[0].flags = cuda::wait_value_eq;
  operations[1].operation = cuda::batch_write_value_32;
  operations[1].address = narrow.at();
  operations[1].value = 11;
  operations[2].operation = cuda::batch_write_value_64;
  operations[2].address = wide.at();
  operations[2].value = std::uint64_t{1} << 50U;
  ASSERT_EQ(cuda::success, cuStreamBatchMemOp_v2(stream.get(), 3, operations.data(), 0));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(stream.get()));
  EXPECT_EQ(0U, narrow.load());
  gate.store(1);
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(11U, narrow.load());
  EXPECT_EQ(std::uint64_t{1} << 50U, wide.load());
}

TEST_F(MemoryOperations, FlushOnlyWhereTheDeviceCan) {
  constexpr int can_flush_remote_writes = 98;
  int can = 0;
  ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&can, can_flush_remote_writes, 0));
  const cuda::Result expected = can != 0 ? cuda::success : cuda::error_not_supported;
  const Shared<std::uint32_t> word(0);
  const Stream stream;
  EXPECT_EQ(expected, cuStreamWaitValue32_v2(stream.get(), word.at(), 0, cuda::wait_value_flush));
  cuda::BatchMemoryOperation operation{};
  operation.operation = cuda::batch_flush_remote_writes;
  EXPECT_EQ(expected, cuStreamBatchMemOp_v2(stream.get(), 1, &operation, 0));
}

TEST_F(MemoryOperations, InBatchesMayBeBarriersAndMayBeNone) {
  const Stream stream;
  cuda::BatchMemoryOperation operation{};
  operation.operation = cuda::batch_barrier;
  EXPECT_EQ(cuda::success, cuStreamBatchMemOp_v2(stream.get(), 1, &operation, 0));
  EXPECT_EQ(cuda::success, cuStreamBatchMemOp_v2(stream.get(), 0, &operation, 0));
  operation.operation = 99;
  EXPECT_EQ(cuda::error_invalid_value, cuStreamBatchMemOp_v2(stream.get(), 1, &operation, 0));
}

TEST_F(MemoryOperations, NeedAddressesThatAreMultiplesOfTheirSize) {
  const Shared<std::uint64_t> word(0);
  const Stream stream;
  EXPECT_EQ(cuda::error_invalid_value, cuStreamWaitValue32_v2(stream.get(), word.at() + 2, 0, 0));
  EXPECT_EQ(cuda::error_invalid_value, cuStreamWriteValue32_v2(stream.get(), word.at() + 2, 0, 0));
  EXPECT_EQ(cuda::error_invalid_value, cuStreamWriteValue64_v2(stream.get(), word.at() + 4, 0, 0));
}

TEST_F(MemoryOperations, HaveNoOtherFlags) {
  const Shared<std::uint32_t> word(0);
  const Stream stream;
  EXPECT_EQ(cuda::error_invalid_value, cuStreamWaitValue32_v2(stream.get(), word.at(), 0, 7));
  EXPECT_EQ(cuda::error_invalid_value, cuStreamWriteValue32_v2(stream.get(), word.at(), 0, 8));
}

}  // namespace
}  // namespace sluice::gpu_suite
