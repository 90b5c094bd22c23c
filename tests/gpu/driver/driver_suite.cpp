// SPDX-License-Identifier: Apache-2.0
// One suite, two drivers: what Sluice relies on in a CUDA driver. Runs on the soft GPU and, carried to a machine that
// has one, on a real driver; a difference is a bug of the soft one.
#include <gtest/gtest.h>

#include <iostream>

#include "driver_calls.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  using namespace sluice;
  if (gpu_suite::driver_library() == nullptr) {
    std::cout << "no libcuda.so.1: " << ::dlerror() << "\n";
    return 1;
  }
  // The tests of what holds before cuInit run in processes of their own, which take this way too; they need it unmade.
  const bool fresh_child = ::testing::GTEST_FLAG(internal_run_death_test).empty();
  if (fresh_child) {
    if (gpu_suite::cuInit(0) != cuda::success) {
      std::cout << "cuInit fails: this machine has no usable device\n";
      return 1;
    }
    std::cout << "driver under test: " << gpu_suite::driver_description() << std::endl;
  }
  return RUN_ALL_TESTS();
}
