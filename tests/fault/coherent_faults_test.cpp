// SPDX-License-Identifier: Apache-2.0
// What may happen to a transfer in place while it is on its way: what is left goes by copies, or the answer is the
// usual error.
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "fault/interpose.h"
#include "support/calls.h"
#include "support/coherent.h"
#include "support/cuda_driver.h"

namespace sluice::fault {
namespace {

using namespace support;

constexpr std::size_t kPiece = 100 << 10;

class CoherentFaults : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (!goes_in_place(MemoryKind::device)) GTEST_SKIP() << "wants the soft GPU with SLUICE_SOFTGPU_COHERENT=1";
    ASSERT_TRUE(interposition_works());
    ASSERT_EQ(register_fd(fd_.get(), &handle_), CU_FILE_SUCCESS);
    // The trial is behind us.
    const Memory memory(MemoryKind::device, kPiece);
    const Registration registration(memory);
    ASSERT_EQ(read_file(handle_, memory.address(), kPiece), moved(kPiece));
  }
  void TearDown() override {
    if (handle_ != nullptr) cuFileHandleDeregister(handle_);
    DeviceTest::TearDown();
  }

  const ScratchFile file_{kPiece};
  const Fd fd_ = file_.open(O_RDWR);
  CUfileHandle_t handle_ = nullptr;
};

TEST_F(CoherentFaults, LeaveTheRestToCopies) {
  const Memory memory(MemoryKind::device, kPiece);
  const std::vector<std::vector<Step>> courses{
      {fail(EFAULT), pass()}, {fail(EINVAL), pass()}, {shorten(5000), fail(EFAULT), pass()}};
  for (const auto& steps : courses) {
    SCOPED_TRACE(testing::Message() << steps.size() << " steps, error " << steps[steps.size() - 2].error);
    const MovedSoFar before = moved_so_far();
    memory.fill(0);
    {
      const Plan plan(fd_.get(), Direction::read, steps);
      EXPECT_EQ(read_file(handle_, memory.address(), kPiece), moved(kPiece));
    }
    EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
    EXPECT_GT(moved_so_far().copies, before.copies);
    const Bytes bytes = random_bytes(kPiece, 5);
    memory.put(0, bytes);
    {
      const Plan plan(fd_.get(), Direction::write, steps);
      EXPECT_EQ(write_file(handle_, memory.address(), kPiece), moved(kPiece));
    }
    EXPECT_TRUE(same_bytes(bytes, content_of(file_.path())));
    plain_write(fd_.get(), 0, file_.content());
  }
}

TEST_F(CoherentFaults, ThatAreTheStoragesAreToldAsUsual) {
  const Memory memory(MemoryKind::device, kPiece);
  memory.fill(1);
  const Plan plan(fd_.get(), Direction::read, {fail(EIO)});
  EXPECT_EQ(read_file(handle_, memory.address(), kPiece), failed(EIO));
  EXPECT_TRUE(all_bytes(1, memory.get()));
}

// The memory goes while the kernel waits for the disk: it finds nothing there when the bytes come.
TEST_F(CoherentFaults, LikeMemoryThatIsFreedMeanwhileEndInAnError) {
  for (const Direction direction : {Direction::read, Direction::write}) {
    Memory memory(MemoryKind::device, std::size_t{4} << 20U);
    Plan plan(fd_.get(), direction, {block(), pass()});
    Transfer answer;
    std::thread caller([&, base = memory.address()] {
      const ContextScope scope(primary_context(0));
      answer = direction == Direction::read ? read_file(handle_, base, kPiece) : write_file(handle_, base, kPiece);
    });
    plan.wait_until_blocked();
    memory.free();
    plan.release();
    caller.join();
    EXPECT_EQ(answer, failed(direction == Direction::read ? EPERM : EIO));
  }
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

}  // namespace
}  // namespace sluice::fault
