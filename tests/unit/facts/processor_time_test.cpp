// SPDX-License-Identifier: Apache-2.0
// What the first line of /proc/stat tells.
#include "facts/processor_time.h"

#include <gtest/gtest.h>

#include "facts/tree.h"

namespace sluice::facts {
namespace {

TEST(ProcessorTime, IsTheSumOfAllThatIsNotAGuests) {
  const auto time = processor_time_of("cpu  14878 1 39412 900955 397 2 370 2860 7 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  ASSERT_TRUE(time);
  EXPECT_EQ(time->all, 14878u + 1 + 39412 + 900955 + 397 + 2 + 370 + 2860);
  EXPECT_EQ(time->stolen, 2860u);
}

TEST(ProcessorTime, OtherTextsTellNothing) {
  for (const char* const text :
       {"", "cpu", "cpu ", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3 4 5 6 7", "cpu  1 2 3 x 5 6 7 8",
        "cpu  1 2 3 4 5 6 7 99999999999999999999999", "intr 1 2 3 4 5 6 7 8"}) {
    EXPECT_FALSE(processor_time_of(text)) << text;
  }
}

TEST(ProcessorTime, IsReadFromTheMachinesFile) {
  Tree tree;
  EXPECT_FALSE(read_processor_time(tree.root()));
  tree.file("/proc/stat", "cpu  1 2 3 4 5 6 7 8 0 0\n");
  const auto time = read_processor_time(tree.root());
  ASSERT_TRUE(time);
  EXPECT_EQ(time->all, 36u);
  EXPECT_EQ(time->stolen, 8u);
  EXPECT_TRUE(read_processor_time(Root{})) << "and this machine's own";
}

}  // namespace
}  // namespace sluice::facts
