// SPDX-License-Identifier: Apache-2.0
// main() of the test programs that have none of their own: they take nothing but GoogleTest's arguments.
#include <gtest/gtest.h>

#include "support/run.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return sluice::support::run_all_tests();
}
