// SPDX-License-Identifier: Apache-2.0
// Device memory is not the host's, and a forked child has no device.
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Isolation : public Driver {};

constexpr int faulted_there = 77;
Ptr touched = 0;

void on_fault(int /*signal*/, siginfo_t* information, void* /*context*/) {
  ::_exit(reinterpret_cast<Ptr>(information->si_addr) == touched ? faulted_there : 1);
}

// Ends the process: with `faulted_there` when a host access to device memory faults at its address.
[[noreturn]] void touch_device_memory() {
  cuda::Context context = nullptr;
  if (cuInit(0) == cuda::success && cuDevicePrimaryCtxRetain(&context, 0) == cuda::success &&
      cuCtxSetCurrent(context) == cuda::success && cuMemAlloc_v2(&touched, 4096) == cuda::success) {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, nullptr);
    *reinterpret_cast<volatile char*>(touched) = 1;
  }
  ::_exit(2);
}

// In a process of its own, begun anew.
TEST(Processes, AHostAccessToDeviceMemoryFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(touch_device_memory(), ::testing::ExitedWithCode(faulted_there), "");
}

// What must hold of a reset, told by its first failure; in a process of its own, since a reset takes everything.
int reset_gone_wrong() {
  cuda::Context context = nullptr;
  Ptr pointer = 0;
  unsigned type = 0;
  unsigned flags = 0;
  int active = 1;
  if (cuInit(0) != cuda::success || cuDevicePrimaryCtxRetain(&context, 0) != cuda::success) return 1;
  if (cuCtxSetCurrent(context) != cuda::success || cuMemAlloc_v2(&pointer, 4096) != cuda::success) return 2;
  if (cuDevicePrimaryCtxReset_v2(0) != cuda::success) return 3;
  if (cuDevicePrimaryCtxGetState(0, &flags, &active) != cuda::success || active != 0) return 4;
  if (cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, pointer) == cuda::success) return 5;
  if (cuDevicePrimaryCtxRetain(&context, 0) != cuda::success || cuCtxSetCurrent(context) != cuda::success) return 6;
  if (cuMemAlloc_v2(&pointer, 4096) != cuda::success || cuMemsetD8_v2(pointer, 1, 4096) != cuda::success) return 7;
  return cuCtxSynchronize() == cuda::success ? 0 : 8;
}

// What must hold of who retains a context that is reset, likewise.
int count_after_reset_gone_wrong() {
  cuda::Context context = nullptr;
  unsigned flags = 0;
  int active = 0;
  if (cuInit(0) != cuda::success || cuDevicePrimaryCtxRetain(&context, 0) != cuda::success) return 1;
  if (cuDevicePrimaryCtxRetain(&context, 0) != cuda::success) return 2;
  if (cuDevicePrimaryCtxReset_v2(0) != cuda::success) return 3;
  if (cuDevicePrimaryCtxRelease_v2(0) != cuda::success) return 4;
  if (cuDevicePrimaryCtxRetain(&context, 0) != cuda::success) return 5;
  if (cuDevicePrimaryCtxRelease_v2(0) != cuda::success) return 6;
  if (cuDevicePrimaryCtxGetState(0, &flags, &active) != cuda::success) return 7;
  return active == 1 ? 0 : 8;
}

TEST(Processes, AResetReleasesForNoOneWhoRetained) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(count_after_reset_gone_wrong()), ::testing::ExitedWithCode(0), "");
}

TEST(Processes, AResetTakesTheMemoryAndLeavesTheDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(reset_gone_wrong()), ::testing::ExitedWithCode(0), "");
}

TEST_F(Isolation, ASystemCallCannotReachDeviceMemory) {
  const DeviceBuffer buffer(4096);
  const int file = ::memfd_create("isolation", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(0, ::ftruncate(file, 4096));
  errno = 0;
  EXPECT_EQ(-1, ::pread(file, reinterpret_cast<void*>(buffer.at()), 4096, 0));
  EXPECT_EQ(EFAULT, errno);
  errno = 0;
  EXPECT_EQ(-1, ::pwrite(file, reinterpret_cast<void*>(buffer.at()), 4096, 0));
  EXPECT_EQ(EFAULT, errno);
  ::close(file);
}

TEST_F(Isolation, AForkedChildHasNoDriver) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int count = 0;
    const bool refused = cuInit(0) != cuda::success || cuDeviceGetCount(&count) != cuda::success;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(child, ::waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  // And the parent still has its own.
  const DeviceBuffer buffer(4096);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 3, 4096));
  EXPECT_EQ(std::vector<std::uint8_t>(4096, 3), buffer.bytes());
}

}  // namespace
}  // namespace sluice::gpu_suite
