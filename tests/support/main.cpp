// main() of the test programs that take nothing but GoogleTest's own arguments.
#include <gtest/gtest.h>

#include "support/run.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return sluice::support::run_all_tests();
}
