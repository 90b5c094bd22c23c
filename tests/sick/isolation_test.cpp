// SPDX-License-Identifier: Apache-2.0
// One ragged O_DIRECT write that is stuck in its storage holds no thread that has to do with another one.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <optional>

#include "sick/sick_storage.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::sick {
namespace {

using namespace support;

class StuckRaggedWrite : public SickStorage {
 protected:
  void SetUp() override {
    SickStorage::SetUp();
    if (IsSkipped()) return;
    memory_.emplace(MemoryKind::device, kMiB);
    sick_fd_ = ward_->open(0, O_RDWR | O_DIRECT);
    sick_.emplace(sick_fd_);
    other_.emplace(healthy_.open(O_RDWR | O_DIRECT));
    handle_.emplace(*other_);
    // A write of less than a page fetches the page.
    fall_silent();
    stuck_.emplace([this] { write_file(sick_->get(), memory_->address(), 100, 5000); });
    ASSERT_TRUE(ward_->withholds(1));
  }
  void TearDown() override {
    cure();
    stuck_.reset();
    sick_.reset();
    handle_.reset();
    sick_fd_.reset();
    SickStorage::TearDown();
  }

  const ScratchFile healthy_{kMiB};
  std::optional<Memory> memory_;
  Fd sick_fd_;
  std::optional<Handle> sick_;
  std::optional<Fd> other_;
  std::optional<Handle> handle_;
  std::optional<Stuck> stuck_;
};

TEST_F(StuckRaggedWrite, HoldsNoRaggedWriteOfAnotherStorage) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::plain, MemoryKind::pinned}) {
    const Memory memory(kind, kMiB);
    EXPECT_TRUE(ends([&] { EXPECT_EQ(write_file(handle_->get(), memory.address(), 9001, 4095), moved(9001)); }))
        << name_of(kind);
  }
}

TEST_F(StuckRaggedWrite, HoldsNoBatchOfAnotherStorage) {
  EXPECT_TRUE(ends([&] {
    Batch batch(3);
    for (std::size_t i = 0; i < 3; ++i) batch.write(handle_->get(), *memory_, 5001, i * 20'001, i * 8'192);
    for (const ssize_t result : batch.run()) EXPECT_EQ(result, 5001);
  }));
}

TEST_F(StuckRaggedWrite, HoldsNoStreamOfAnotherStorage) {
  EXPECT_TRUE(ends([&] {
    const Stream stream;
    std::size_t size = 9001;
    off_t at = 4095;
    off_t offset = 0;
    ssize_t count = -77;
    EXPECT_EQ(code(cuFileWriteAsync(handle_->get(), memory_->address(), &size, &at, &offset, &count, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    EXPECT_EQ(count, 9001);
  }));
}

TEST_F(StuckRaggedWrite, HoldsNoDeregistrationOfAnotherStoragesFile) {
  EXPECT_EQ(write_file(handle_->get(), memory_->address(), 100, 1), moved(100));  // now it has a private description
  EXPECT_TRUE(ends([&] { handle_->deregister(); }));
}

TEST_F(StuckRaggedWrite, HoldsNoDeregistrationOfAnotherFileOfTheSameStorage) {
  const Fd fd = ward_->open(1, O_RDWR | O_DIRECT);
  ward_->condition().reading[1] = ward_->condition().writing[1] = Ailment::none;
  Handle beside(fd);
  EXPECT_TRUE(ends([&] { beside.deregister(); }));
}

}  // namespace
}  // namespace sluice::sick
