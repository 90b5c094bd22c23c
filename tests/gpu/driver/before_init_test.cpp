// SPDX-License-Identifier: Apache-2.0
// What holds before cuInit. Each check runs in a process of its own, in which it has not been called.
#include <unistd.h>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class BeforeInit : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Leaves the child with 0 when the statement held.
#define HOLDS_BEFORE_INIT(statement) EXPECT_EXIT(::_exit((statement) ? 0 : 1), ::testing::ExitedWithCode(0), "")

TEST_F(BeforeInit, DeviceQuestionsAreRefused) {
  int count = 0;
  HOLDS_BEFORE_INIT(cuDeviceGetCount(&count) == cuda::error_not_initialized);
}

TEST_F(BeforeInit, AllocatingIsRefused) {
  Ptr pointer = 0;
  HOLDS_BEFORE_INIT(cuMemAlloc_v2(&pointer, 64) == cuda::error_not_initialized);
}

TEST_F(BeforeInit, RetainingAPrimaryContextIsRefused) {
  cuda::Context context = nullptr;
  HOLDS_BEFORE_INIT(cuDevicePrimaryCtxRetain(&context, 0) == cuda::error_not_initialized);
}

TEST_F(BeforeInit, AskingForTheCurrentContextIsRefused) {
  cuda::Context context = nullptr;
  HOLDS_BEFORE_INIT(cuCtxGetCurrent(&context) == cuda::error_not_initialized);
}

TEST_F(BeforeInit, TheVersionIsKnown) {
  int version = 0;
  HOLDS_BEFORE_INIT(cuDriverGetVersion(&version) == cuda::success && version >= 12000);
}

TEST_F(BeforeInit, ErrorsHaveNames) {
  const char* name = nullptr;
  HOLDS_BEFORE_INIT(cuGetErrorName(cuda::error_not_initialized, &name) == cuda::success &&
                    std::string(name) == "CUDA_ERROR_NOT_INITIALIZED");
}

TEST_F(BeforeInit, EntryPointsCanBeFound) {
  void* function = nullptr;
  HOLDS_BEFORE_INIT(cuGetProcAddress_v2("cuInit", &function, 12000, 0, nullptr) == cuda::success &&
                    function != nullptr);
}

TEST_F(BeforeInit, InitTakesNoFlags) {
  HOLDS_BEFORE_INIT(cuInit(1) == cuda::error_invalid_value);
}

TEST_F(BeforeInit, InitMayBeRepeated) {
  HOLDS_BEFORE_INIT(cuInit(0) == cuda::success && cuInit(0) == cuda::success);
}

}  // namespace
}  // namespace sluice::gpu_suite
