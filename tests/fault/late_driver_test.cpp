// SPDX-License-Identifier: Apache-2.0
// A driver that comes late: a program registers its file first and loads CUDA afterwards, and several threads make the
// first transfers of device memory at once. Each test plays in a child, since a process loads its driver once.
#include <dlfcn.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "fault/interpose.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::fault {
namespace {

using namespace support;

constexpr std::size_t file_bytes = 1U << 20U;
const std::string no_driver = "there is no driver to come late";

bool driver_is_loaded() {
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr;
}

// One thread's transfer stands in the kernel, with an address that was not known to be a device's, until another one's
// has found the driver. Both have to end well. The answer is empty then.
std::string transfers_that_overlap_with_the_find(Direction direction, int flags, std::size_t size) {
  const ScratchFile file(file_bytes);
  const Fd fd = file.open(O_RDWR | flags);
  const Handle handle(fd);
  if (driver_is_loaded()) return "the driver is loaded already, so nothing is tried";
  if (cuda() == nullptr) return no_driver;
  const Memory first(MemoryKind::device, size);
  const Memory second(MemoryKind::device, size);
  const Bytes pattern = random_bytes(size, 5);
  first.put(0, pattern);
  second.put(0, pattern);

  const auto transfer = [&](const Memory& memory, off_t offset) {
    return direction == Direction::read ? read_file(handle.get(), memory.address(), size, offset)
                                        : write_file(handle.get(), memory.address(), size, offset);
  };
  Transfer early;
  Transfer late;
  {
    Plan plan(fd.get(), direction, {block(), pass()});
    std::thread begins_without_it([&] { early = transfer(first, 0); });
    plan.wait_until_blocked();
    late = transfer(second, file_bytes / 2);
    plan.release();
    begins_without_it.join();
  }
  if (late != moved(size)) return "the thread that finds the driver fails with " + std::to_string(late.error);
  if (early != moved(size)) return "the thread that began without it fails with " + std::to_string(early.error);
  for (const auto& [memory, offset] : {std::pair{&first, std::size_t{0}}, {&second, file_bytes / 2}}) {
    if (!same_bytes(plain_read(file.open(O_RDONLY).get(), offset, size), memory->get())) return "the bytes differ";
  }
  return {};
}

class LateDriver : public ::testing::TestWithParam<std::tuple<Direction, int, std::size_t>> {};

TEST_P(LateDriver, IsFoundByEveryThreadThatBeganWithoutIt) {
  const auto [direction, flags, size] = GetParam();
  if (driver_is_loaded()) GTEST_SKIP() << "this process has a driver from its start";
  const auto plays_well = [&, direction = direction, flags = flags, size = size] {
    const std::string complaint = transfers_that_overlap_with_the_find(direction, flags, size);
    std::fputs(complaint.c_str(), stderr);
    std::_Exit(complaint.empty() ? 0 : complaint == no_driver ? 77 : 1);
  };
  EXPECT_EXIT(
      plays_well(), [](int status) { return status == 0 || WEXITSTATUS(status) == 77; }, "");
}

// A ragged O_DIRECT write of less than a block is left out: one thread makes all of these, and the plan would hold it.
INSTANTIATE_TEST_SUITE_P(Each, LateDriver,
                         ::testing::Values(std::tuple{Direction::read, 0, std::size_t{100}},
                                           std::tuple{Direction::read, 0, std::size_t{300'000}},
                                           std::tuple{Direction::read, O_DIRECT, std::size_t{100}},
                                           std::tuple{Direction::read, O_DIRECT, std::size_t{300'000}},
                                           std::tuple{Direction::write, 0, std::size_t{100}},
                                           std::tuple{Direction::write, 0, std::size_t{300'000}},
                                           std::tuple{Direction::write, O_DIRECT, std::size_t{4096}},
                                           std::tuple{Direction::write, O_DIRECT, std::size_t{300'000}}));

}  // namespace
}  // namespace sluice::fault

// The usual one looks for the driver at once.
int main(int count, char** words) {
  ::testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
