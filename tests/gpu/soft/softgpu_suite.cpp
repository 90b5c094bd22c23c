// SPDX-License-Identifier: Apache-2.0
// What only the soft GPU has: its knobs. No check here runs on a real driver.
#include <gtest/gtest.h>

#include <iostream>

#include "gpu/driver/driver_calls.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  // Each check starts a process of its own, from the beginning: the knobs are read by its cuInit.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (!sluice::gpu_suite::driver_is_soft()) {
    std::cout << "libcuda.so.1 is not the soft GPU; set LD_LIBRARY_PATH to its folder\n";
    return 1;
  }
  return RUN_ALL_TESTS();
}
