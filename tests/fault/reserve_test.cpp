// SPDX-License-Identifier: Apache-2.0
// The threads that read for several links besides the workers, on a machine that says it has 24 processors.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"

// The library is given this one.
extern "C" [[gnu::visibility("default")]] int sched_getaffinity(pid_t /*process*/, std::size_t size,
                                                                cpu_set_t* processors) noexcept {
  CPU_ZERO_S(size, processors);
  for (int number = 0; number < 24; ++number) CPU_SET_S(static_cast<std::size_t>(number), size, processors);
  return 0;
}

namespace sluice::fault {
namespace {

using namespace support;

constexpr std::size_t kSize = (24 << 20) + 4321;

// Threads of the process whose names begin so.
int threads_named(const std::string& name) {
  int found = 0;
  DIR* const tasks = ::opendir("/proc/self/task");
  for (const dirent* entry = ::readdir(tasks); entry != nullptr; entry = ::readdir(tasks)) {
    std::string comm;
    std::getline(std::ifstream(std::string("/proc/self/task/") + entry->d_name + "/comm"), comm);
    if (comm.starts_with(name)) ++found;
  }
  ::closedir(tasks);
  return found;
}

void read_often(int times) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kSize);
  for (int turn = 0; turn < times; ++turn) {
    memory.fill(0x5a);
    ASSERT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
    ASSERT_TRUE(same_bytes(file.content(), memory.get())) << "read " << turn;
  }
}

TEST(Reserve, ReadsForSeveralLinksWhicheverRequestWantsThem) {
  if (cuda() == nullptr || cuda()->devices < 2) GTEST_SKIP() << "wants several GPUs";
  read_often(10);
  if (threads_named("sluice-work-") < 11) GTEST_SKIP() << "the process may use fewer processors, whatever it is told";
  EXPECT_EQ(threads_named("sluice-more-"), 12);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([] { read_often(5); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(threads_named("sluice-more-"), 12);
}

}  // namespace
}  // namespace sluice::fault
