// SPDX-License-Identifier: Apache-2.0
// What may happen to a small read while it is on its way into a window: it goes the usual way then, all of it, and the
// answer is the usual one.
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "fault/interpose.h"
#include "support/cuda_driver.h"
#include "support/windows.h"

namespace sluice::fault::window_faults_test {
namespace {

using namespace support;

constexpr std::size_t kPiece = 16 << 10;

class WindowFaults : public WindowTest {
 protected:
  void SetUp() override {
    WindowTest::SetUp();
    if (IsSkipped()) return;
    if (!windows_are_there()) GTEST_SKIP() << no_windows;
    ASSERT_TRUE(interposition_works());
  }

  const ScratchFile file_{kPiece + 4096};
  const Fd fd_ = file_.open(O_RDONLY);
};

TEST_F(WindowFaults, ThatBreakOffSendAllOfItTheUsualWay) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kPiece);
  const Registration registration(memory);
  const std::vector<std::vector<Step>> courses{{fail(EFAULT), pass()},
                                               {fail(EINVAL), pass()},
                                               {fail(EIO), pass()},
                                               {nothing(), pass()},
                                               {shorten(5000), fail(EFAULT), pass()},
                                               {shorten(5000), nothing(), pass()}};
  for (const auto& steps : courses) {
    SCOPED_TRACE(testing::Message() << steps.size() << " steps, error " << steps[steps.size() - 2].error);
    const Plan plan(fd_.get(), Direction::read, steps);
    read_and_look(handle.get(), file_.content(), memory, 3, 0, kPiece, By::another);
    EXPECT_EQ(plan.calls(), steps.size());
  }
}

TEST_F(WindowFaults, ThatAreNoneSendNothingTwice) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kPiece);
  const Registration registration(memory);
  const Plan plan(fd_.get(), Direction::read, {shorten(5000), fail(EINTR), shorten(1), pass()});
  read_and_look(handle.get(), file_.content(), memory, 3, 0, kPiece, By::window);
  EXPECT_EQ(plan.calls(), 4U);
}

TEST_F(WindowFaults, ThatStayAreToldAsUsual) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kPiece);
  const Registration registration(memory);
  memory.fill(1);
  const Plan plan(fd_.get(), Direction::read, {fail(EIO)});
  EXPECT_EQ(read_file(handle.get(), memory.address(), kPiece), failed(EIO));
  EXPECT_TRUE(all_bytes(1, memory.get()));
}

// The memory goes while the read waits for the disk: the window has gone with it when the bytes come.
TEST_F(WindowFaults, LikeMemoryThatIsFreedMeanwhileEndInAnError) {
  const Handle handle(fd_);
  Memory memory(MemoryKind::device, kPiece);
  const Registration registration(memory);
  const std::uint64_t before = reads_by_window();
  Plan plan(fd_.get(), Direction::read, {block(), pass()});
  Transfer answer;
  std::thread reader([&, base = memory.address()] {
    const ContextScope scope(primary_context(0));
    answer = read_file(handle.get(), base, kPiece);
  });
  plan.wait_until_blocked();
  memory.free();
  plan.release();
  reader.join();
  EXPECT_EQ(answer, failed(EPERM));
  EXPECT_EQ(plan.calls(), 2U);
  EXPECT_EQ(reads_by_window(), before);
}

// Deregistering waits for the read, and the window stays for as long.
TEST_F(WindowFaults, AreNoneWhileTheRegistrationEnds) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kPiece);
  ASSERT_EQ(code(cuFileBufRegister(memory.address(), kPiece, 0)), CU_FILE_SUCCESS);
  const std::uint64_t before = reads_by_window();
  Plan plan(fd_.get(), Direction::read, {block(), pass()});
  Transfer answer;
  std::thread reader([&] {
    const ContextScope scope(primary_context(0));
    answer = read_file(handle.get(), memory.address(), kPiece);
  });
  plan.wait_until_blocked();
  std::thread ending([&] { EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS); });
  // No other thread gets it from then on.
  while (code(cuFileBufRegister(memory.address(), kPiece, 0)) != CU_FILE_SUCCESS) std::this_thread::yield();
  plan.release();
  reader.join();
  ending.join();
  EXPECT_EQ(answer, moved(kPiece));
  EXPECT_EQ(plan.calls(), 1U);
  EXPECT_EQ(reads_by_window(), before + 1);
  EXPECT_TRUE(same_bytes(std::span(file_.content()).first(kPiece), memory.get()));
  EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
}

}  // namespace
}  // namespace sluice::fault::window_faults_test
