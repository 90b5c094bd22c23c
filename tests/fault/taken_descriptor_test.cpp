// SPDX-License-Identifier: Apache-2.0
// A program closes a file while it is read or written, and the number becomes another file's: what that one's bytes may
// be among is no success, through whichever door.
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "fault/interpose.h"
#include "fault/watched.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::fault::taken_descriptor_test {
namespace {

using namespace support;

constexpr std::size_t kSize = std::size_t{1} << 20U;
constexpr std::size_t kEntries = 8;

class TakenDescriptor : public CufileTest, public ::testing::WithParamInterface<std::tuple<MemoryKind, Direction>> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_TRUE(interposition_works());
    if (!available(kind())) GTEST_SKIP() << "no CUDA device";
    memory_.emplace(kind(), kEntries * kSize);
    memory_->fill(1);
    handle_.emplace(fd_);
  }
  void TearDown() override {
    handle_.reset();
    CufileTest::TearDown();
  }
  static MemoryKind kind() { return std::get<0>(GetParam()); }
  static Direction direction() { return std::get<1>(GetParam()); }

  // While a call on the file stands still, its number is given to the other one.
  void take(Plan& plan) {
    plan.wait_until_blocked();
    ASSERT_EQ(::dup2(other_fd_.get(), fd_.get()), fd_.get());
    plan.release();
  }

  Transfer transfer() {
    return direction() == Direction::read ? read_file(handle_->get(), memory_->address(), kSize)
                                          : write_file(handle_->get(), memory_->address(), kSize);
  }

  const ScratchFile file_{kEntries * kSize};
  const ScratchFile other_{kEntries * kSize};
  const Fd fd_ = file_.open(O_RDWR);
  const Fd other_fd_ = other_.open(O_RDWR);
  std::optional<Memory> memory_;
  std::optional<Handle> handle_;
};

TEST_P(TakenDescriptor, MakesACallFail) {
  Plan plan(fd_.get(), direction(), {block(), pass()});
  Transfer told;
  Watched caller([&] { told = transfer(); });
  take(plan);
  caller.join();
  EXPECT_EQ(told, failed(EBADF));
}

TEST_P(TakenDescriptor, MakesTheEntriesOfABatchFail) {
  Plan plan(fd_.get(), direction(), {block(), pass()});
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, kEntries)), CU_FILE_SUCCESS);
  std::array<CUfileIOParams_t, kEntries> entries{};
  for (std::size_t i = 0; i < kEntries; ++i) {
    entries[i].mode = CUFILE_BATCH;
    entries[i].fh = handle_->get();
    entries[i].opcode = direction() == Direction::read ? CUFILE_READ : CUFILE_WRITE;
    entries[i].cookie = reinterpret_cast<void*>(i * kSize);
    entries[i].u.batch.devPtr_base = memory_->at(i * kSize);
    entries[i].u.batch.file_offset = static_cast<off_t>(i * kSize);
    entries[i].u.batch.size = kSize;
  }
  // Where there are no lanes, the call itself may stand still.
  Watched submitter([&] { EXPECT_EQ(code(cuFileBatchIOSubmit(batch, kEntries, entries.data(), 0)), CU_FILE_SUCCESS); });
  take(plan);
  submitter.join();
  std::array<CUfileIOEvents_t, kEntries> events;
  std::size_t failures = 0;
  for (unsigned ended = 0; ended < kEntries;) {
    unsigned room = kEntries;
    ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, 1, &room, events.data(), nullptr)), CU_FILE_SUCCESS);
    ASSERT_GT(room, 0U);
    for (unsigned i = 0; i < room; ++i) {
      const auto told = static_cast<ssize_t>(events[i].ret);
      const bool failed = told == -EBADF;
      failures += failed ? 1 : 0;
      EXPECT_EQ(events[i].status, failed ? CUFILE_FAILED : CUFILE_COMPLETE);
      // One that had ended by then has the file's bytes.
      if (!failed) {
        EXPECT_EQ(told, ssize_t{kSize});
        const std::size_t at = reinterpret_cast<std::size_t>(events[i].cookie);
        const Bytes content = content_of(file_.path());
        EXPECT_TRUE(same_bytes(std::span(content).subspan(at, kSize), memory_->get(at, kSize)));
      }
    }
    ended += room;
  }
  EXPECT_GT(failures, 0U);
  cuFileBatchIODestroy(batch);
}

class TakenDescriptorInAStream : public TakenDescriptor {};

TEST_P(TakenDescriptorInAStream, MakesTheTransferFail) {
  Plan plan(fd_.get(), direction(), {block(), pass()});
  const Stream stream;
  std::size_t size = kSize;
  off_t at = 0;
  off_t into = 0;
  ssize_t told = -77;
  // In plain mode the call waits for its file.
  Watched caller([&] {
    const auto call = direction() == Direction::read ? cuFileReadAsync : cuFileWriteAsync;
    void* const memory = memory_->address();
    EXPECT_EQ(code(call(handle_->get(), memory, &size, &at, &into, &told, stream.get())), CU_FILE_SUCCESS);
  });
  take(plan);
  caller.join();
  stream.synchronize();
  EXPECT_EQ(told, -EBADF);
}

// Bytes that came before are the file's, whose own descriptor moved them.
TEST_P(TakenDescriptor, IsNoneWhereItWasClosedInTime) {
  Plan plan(fd_.get(), direction(), {pass()});
  EXPECT_EQ(transfer(), moved(kSize));
  ::dup2(other_fd_.get(), fd_.get());
  EXPECT_EQ(transfer(), failed(EBADF));
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<MemoryKind, Direction>>& parameters) {
  const auto [kind, direction] = parameters.param;
  return std::string(kind == MemoryKind::plain ? "Host" : "Device") +
         (direction == Direction::read ? "Reads" : "Writes");
}
constexpr std::array kDirections{Direction::read, Direction::write};
INSTANTIATE_TEST_SUITE_P(Of, TakenDescriptor,
                         ::testing::Combine(::testing::Values(MemoryKind::plain, MemoryKind::device),
                                            ::testing::ValuesIn(kDirections)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Of, TakenDescriptorInAStream,
                         ::testing::Combine(::testing::Values(MemoryKind::device), ::testing::ValuesIn(kDirections)),
                         name_of);

}  // namespace
}  // namespace sluice::fault::taken_descriptor_test
