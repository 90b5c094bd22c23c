// SPDX-License-Identifier: Apache-2.0
// A program's own "synchronous" copies of little may end after their calls; transfers that follow keep their order.
#include <optional>

#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace {

using namespace sluice::support;

constexpr std::size_t size = 65536;

class JustCopied : public DeviceTest {
 protected:
  // As a program does it, and unlike Memory::put() without waiting for anything.
  static void copy(const Memory& memory, const Bytes& bytes) {
    ASSERT_EQ(0, cuda()->to_device(reinterpret_cast<CudaAddress>(memory.address()), bytes.data(), bytes.size()));
  }

  const ScratchFile file_{size};
  const Fd fd_{file_.open(O_RDWR)};
  const Bytes copied_ = random_bytes(size, 7);
  std::optional<Handle> handle_;
  std::optional<Memory> memory_;

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    handle_.emplace(fd_);
    memory_.emplace(MemoryKind::device, size);
  }
  void TearDown() override {
    handle_.reset();
    memory_.reset();
    DeviceTest::TearDown();
  }
};

TEST_F(JustCopied, BytesAreWhatAWriteTakes) {
  copy(*memory_, copied_);
  EXPECT_EQ(moved(size), write_file(handle_->get(), memory_->address(), size));
  EXPECT_TRUE(same_bytes(copied_, plain_read(fd_.get(), 0, size)));
}

TEST_F(JustCopied, BytesAreWhatALaterWriteTakes) {
  memory_->fill(1);
  EXPECT_EQ(moved(size), write_file(handle_->get(), memory_->address(), size));
  copy(*memory_, copied_);
  EXPECT_EQ(moved(size), write_file(handle_->get(), memory_->address(), size));
  EXPECT_TRUE(same_bytes(copied_, plain_read(fd_.get(), 0, size)));
}

TEST_F(JustCopied, BytesOfRegisteredMemoryAreWhatAWriteTakes) {
  const Registration registration(*memory_);
  copy(*memory_, copied_);
  EXPECT_EQ(moved(size), write_file(handle_->get(), memory_->address(), size));
  EXPECT_TRUE(same_bytes(copied_, plain_read(fd_.get(), 0, size)));
}

TEST_F(JustCopied, BytesDoNotCoverWhatIsReadBehindThem) {
  copy(*memory_, copied_);
  EXPECT_EQ(moved(size), read_file(handle_->get(), memory_->address(), size));
  EXPECT_TRUE(same_bytes(file_.content(), memory_->get()));
}

TEST_F(JustCopied, BytesAreWhatTheEntriesOfABatchTake) {
  Batch batch(4);
  for (std::size_t entry = 0; entry < 4; ++entry) {
    batch.write(handle_->get(), *memory_, size / 4, entry * size / 4, entry * size / 4);
  }
  copy(*memory_, copied_);
  EXPECT_EQ(std::vector<ssize_t>(4, size / 4), batch.run());
  EXPECT_TRUE(same_bytes(copied_, plain_read(fd_.get(), 0, size)));
}

}  // namespace
