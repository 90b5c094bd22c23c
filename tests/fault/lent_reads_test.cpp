// SPDX-License-Identifier: Apache-2.0
// A storage that does not answer while kernels, also those of other GPUs, wait for its bytes.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "interpose.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::fault {
namespace {

using namespace support;

// More chunks, of 128 KiB each, than kernels have tickets for at a time.
constexpr std::size_t kSize = std::size_t{60} << 20U;

class KernelsThatWait : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "no kernel carries anything in plain mode";
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  }
};

// So many reads of the file come back, the next one does not until it is let go.
std::vector<Step> blocks_behind(int passes) {
  std::vector<Step> steps(static_cast<std::size_t>(passes), pass());
  steps.push_back(block());
  steps.push_back(pass());
  return steps;
}

// Returns when no kernel is left on these devices.
void expect_to_rest_from(int first) {
  for (int device = first; device < cuda()->devices; ++device) {
    const ContextScope context(primary_context(device));
    EXPECT_EQ(cuda()->context_synchronize(), 0) << device;
  }
}

TEST_F(KernelsThatWait, LeaveTheirDevicesWhenTheStorageDoesNotAnswer) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kSize);
  for (int turn = 0; turn < 5; ++turn) {  // kernels are loaded in the background
    ASSERT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
  }
  for (const int passes : {0, 1, 40}) {
    memory.fill(0x5a);
    Plan plan(fd.get(), Direction::read, blocks_behind(passes));
    Transfer read{};
    std::thread reader([&] {
      const ContextScope context(primary_context(0));
      read = read_file(handle.get(), memory.address(), kSize);
    });
    plan.wait_until_blocked();
    expect_to_rest_from(0);
    plan.release();
    reader.join();
    EXPECT_EQ(read, moved(kSize)) << passes;
    EXPECT_TRUE(same_bytes(file.content(), memory.get())) << passes;
  }
}

// The stream waits for its read, and no other device does.
TEST_F(KernelsThatWait, LeaveOtherDevicesWhenTheStorageDoesNotAnswerToAStream) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kSize);
  const Stream stream;
  std::size_t size = kSize;
  off_t at = 0;
  off_t into = 0;
  ssize_t count = 0;
  const auto read = [&] {
    count = -77;
    return code(cuFileReadAsync(handle.get(), memory.address(), &size, &at, &into, &count, stream.get()));
  };
  for (int turn = 0; turn < 5; ++turn) {
    ASSERT_EQ(read(), CU_FILE_SUCCESS);
    stream.synchronize();
    ASSERT_EQ(count, static_cast<ssize_t>(kSize));
  }
  for (const int passes : {0, 1, 40}) {
    memory.fill(0x5a);
    Plan plan(fd.get(), Direction::read, blocks_behind(passes));
    ASSERT_EQ(read(), CU_FILE_SUCCESS);
    plan.wait_until_blocked();
    expect_to_rest_from(1);
    plan.release();
    stream.synchronize();
    EXPECT_EQ(count, static_cast<ssize_t>(kSize)) << passes;
    EXPECT_TRUE(same_bytes(file.content(), memory.get())) << passes;
  }
}

}  // namespace
}  // namespace sluice::fault
