// SPDX-License-Identifier: Apache-2.0
// The end of a read past the page cache. While the link is slow, the thread sleeps between its looks for the last copy;
// a look that finds it is the last. A program of its own, since it stands before nanosleep.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace {

thread_local bool is_counting = false;
thread_local int sleeps = 0;

}  // namespace

// When it returns to what is counted, every copy that was under way has ended.
extern "C" int nanosleep(const timespec* time, timespec* left) {
  if (is_counting) {
    is_counting = false;  // the driver may sleep, too
    ++sleeps;
    sluice::support::cuda()->context_synchronize();
    is_counting = true;
  }
  return static_cast<int>(syscall(SYS_nanosleep, time, left));
}

namespace sluice::fault {
namespace {

using namespace support;

class LastCopy : public DeviceTest {};

TEST_F(LastCopy, IsNotSleptForOnceMoreWhenItHasEnded) {
  if (!cuda()->soft) GTEST_SKIP() << "a real link ends this copy before the thread sleeps at all: none to count";
  constexpr std::size_t size = std::size_t{1} << 20;  // 8 ms of this link
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, size);
  const auto sleeps_of_a_read = [&] {
    memory.fill(0xa5);
    sleeps = 0;
    is_counting = true;
    const Transfer result = read_file(handle.get(), memory.address(), size, 0, 0);
    is_counting = false;
    EXPECT_EQ(result, moved(size));
    EXPECT_TRUE(same_bytes(file.content(), memory.get()));
    return sleeps;
  };
  sleeps_of_a_read();  // the first one makes what the others use
  int most = 0;
  for (int i = 0; i < 5; ++i) most = std::max(most, sleeps_of_a_read());
  EXPECT_EQ(most, 1);  // none: the link was not slow (SLUICE_SOFTGPU_LINK_GIBPS)
}

}  // namespace
}  // namespace sluice::fault
