// SPDX-License-Identifier: Apache-2.0
// What tests of neighbours' links (sluice.links) have in common. Their runs say by the environment which GPUs may lend.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string_view>

#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/deadline.h"

namespace sluice::contract {

inline bool is_set_to(const char* name, std::string_view value) {
  const char* const text = std::getenv(name);
  return text != nullptr && text == value;
}

// "auto", which is the default, lends only to cached reads of calls and plans.
inline bool is_by_itself() {
  return std::getenv("SLUICE_LINKS") == nullptr || is_set_to("SLUICE_LINKS", "auto");
}
// Without names: "auto" and "lend" take GPUs that are in use.
inline bool is_unnamed() {
  return is_by_itself() || is_set_to("SLUICE_LINKS", "lend");
}

// With the driver open, and its statistics counting what neighbours carry.
class LendingCase : public support::DeviceTest {
 protected:
  void SetUp() override {
    if (std::getenv("SLUICE_LINKS_MIN_KB") == nullptr) {
      GTEST_SKIP() << "wants SLUICE_LINKS_MIN_KB, which each row of lending sets";
    }
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(support::code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    ASSERT_EQ(support::code(cuFileSetStatsLevel(3)), CU_FILE_SUCCESS);
    ASSERT_EQ(support::code(cuFileStatsStart()), CU_FILE_SUCCESS);
  }

  // It is not known when a neighbour gets to its work: a busy machine may keep it from that for seconds.
  static void again_until(const std::function<bool()>& holds, const std::function<void()>& does) {
    for (const support::Deadline deadline; !HasFailure() && !holds() && !deadline.has_passed();) does();
  }
};

// The same, where there is a neighbour to lend one.
class NeighbourCase : public LendingCase {
 protected:
  void SetUp() override {
    LendingCase::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (support::cuda()->devices < 2) GTEST_SKIP() << "there is one device: none can lend its link";
  }
};

}  // namespace sluice::contract
