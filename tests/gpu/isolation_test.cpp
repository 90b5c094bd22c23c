// Device memory is not the host's, and a forked child has no device.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Isolation : public Driver {};

// Ends the process: quietly with 0 when it gets there, which a test takes for a failure.
[[noreturn]] void touch_device_memory() {
  cuda::Context context = nullptr;
  Ptr pointer = 0;
  if (cuInit(0) == cuda::success && cuDevicePrimaryCtxRetain(&context, 0) == cuda::success &&
      cuCtxSetCurrent(context) == cuda::success && cuMemAlloc_v2(&pointer, 4096) == cuda::success) {
    *reinterpret_cast<volatile char*>(pointer) = 1;
  }
  ::_exit(0);
}

TEST_F(Isolation, AHostAccessToDeviceMemoryFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // A sanitizer turns the signal into an exit with a code of its own.
  const auto did_not_survive = [](int status) { return !(WIFEXITED(status) && WEXITSTATUS(status) == 0); };
  EXPECT_EXIT(touch_device_memory(), did_not_survive, "");
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
