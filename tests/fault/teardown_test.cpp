// SPDX-License-Identifier: Apache-2.0
// Deregistering and closing while a transfer stands still in the kernel: once the call has returned, the transfer
// touches neither memory nor file any more.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "fault/interpose.h"
#include "fault/watched.h"
#include "support/calls.h"

namespace sluice::fault::teardown_test {
namespace {

using namespace support;

constexpr std::size_t kSize = 300001;
constexpr unsigned char kAfterwards = 0x99;

class Teardown : public CufileTest, public ::testing::WithParamInterface<MemoryKind> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_TRUE(interposition_works());
    if (!available(GetParam())) GTEST_SKIP() << "no CUDA device";
    close_driver_fully();
    memory_.emplace(GetParam(), kSize);
    memory_->fill(1);
    ASSERT_EQ(register_fd(fd_.get(), &handle_), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileBufRegister(memory_->address(), kSize, 0)), CU_FILE_SUCCESS);
  }

  // A read stands still; `end` runs in another thread and overwrites the memory as soon as its call has returned.
  void expect_no_byte_after(const std::function<void()>& end) {
    Plan plan(fd_.get(), Direction::read, {block(), pass()});
    Transfer transfer;
    Watched reader([&] { transfer = read_file(handle_, memory_->address(), kSize); });
    plan.wait_until_blocked();
    Watched ender([&] {
      end();
      memory_->fill(kAfterwards);
    });
    ender.wait_until_done_or_asleep();
    plan.release();
    reader.join();
    ender.join();
    EXPECT_TRUE(all_bytes(kAfterwards, memory_->get())) << "the read wrote after the call had returned";
    EXPECT_TRUE(transfer == moved(kSize) || transfer.count == -1) << ::testing::PrintToString(transfer);
  }

  // The same for a write: what the file holds when the call returns is what it holds in the end.
  void expect_no_change_after(const std::function<void()>& end) {
    Plan plan(fd_.get(), Direction::write, {block(), pass()});
    Transfer transfer;
    Bytes when_returned;
    Watched writer([&] { transfer = write_file(handle_, memory_->address(), kSize); });
    plan.wait_until_blocked();
    Watched ender([&] {
      end();
      when_returned = content_of(file_.path());
    });
    ender.wait_until_done_or_asleep();
    plan.release();
    writer.join();
    ender.join();
    EXPECT_TRUE(same_bytes(when_returned, content_of(file_.path()))) << "the write went on after the call had returned";
    EXPECT_TRUE(transfer == moved(kSize) || transfer.count == -1) << ::testing::PrintToString(transfer);
  }

  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<Memory> memory_;
  CUfileHandle_t handle_ = nullptr;
};

TEST_P(Teardown, ADeregisteredBufferIsNotWritten) {
  expect_no_byte_after([&] { EXPECT_EQ(code(cuFileBufDeregister(memory_->address())), CU_FILE_SUCCESS); });
}

TEST_P(Teardown, ADeregisteredHandleReadsNothingMore) {
  expect_no_byte_after([&] { cuFileHandleDeregister(handle_); });
}

TEST_P(Teardown, AClosedDriverReadsNothingMore) {
  expect_no_byte_after([&] { EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS); });
}

TEST_P(Teardown, ADeregisteredHandleWritesNothingMore) {
  expect_no_change_after([&] { cuFileHandleDeregister(handle_); });
}

TEST_P(Teardown, AClosedDriverWritesNothingMore) {
  expect_no_change_after([&] { EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS); });
}

TEST_P(Teardown, OtherFilesGoOnMeanwhile) {
  const ScratchFile other_file(kSize);
  const Fd other_fd = other_file.open(O_RDWR);
  const Handle other(other_fd);
  const Memory other_memory(GetParam(), kSize);
  Plan plan(fd_.get(), Direction::read, {block(), pass()});
  Watched reader([&] { EXPECT_EQ(read_file(handle_, memory_->address(), kSize), moved(kSize)); });
  plan.wait_until_blocked();
  EXPECT_EQ(read_file(other.get(), other_memory.address(), kSize), moved(kSize)) << "another file";
  EXPECT_EQ(write_file(handle_, other_memory.address(), kSize), moved(kSize)) << "the same file";
  const Fd third_fd = other_file.open(O_RDWR);
  { const Handle third(third_fd); }
  { const Registration registration(other_memory); }
  plan.release();
  reader.join();
}

INSTANTIATE_TEST_SUITE_P(Each, Teardown, ::testing::Values(MemoryKind::plain, MemoryKind::device),
                         [](const auto& parameters) { return std::string(name_of(parameters.param)); });

}  // namespace
}  // namespace sluice::fault::teardown_test
