// SPDX-License-Identifier: Apache-2.0
// Processes that end, fork and synchronise while a kernel of the library stays for the next small read. Each is a
// process of its own, played by life_program.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <string>

#include "contract/life/child.h"
#include "support/memory.h"

namespace sluice::contract {
namespace {

class LifeBesideAResidentKernel : public ::testing::TestWithParam<const char*> {};

TEST_P(LifeBesideAResidentKernel, PlaysItsScenarioToTheEnd) {
  if (!support::available(support::MemoryKind::device)) GTEST_SKIP() << "no device memory here";
  const life::Ended ended = life::run_beside("life_program", {GetParam()}, {"SLUICE_SMALL_READS=resident"});
  if (ended.skipped()) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.output.find("failed: "), std::string::npos) << ended.output;
  EXPECT_EQ(ended.signal, 0) << strsignal(ended.signal) << "\n" << ended.output;
  EXPECT_EQ(ended.status, 0) << ended.output;
}

INSTANTIATE_TEST_SUITE_P(Small, LifeBesideAResidentKernel,
                         ::testing::Values("end_of_main_beside_a_resident_kernel", "exit_beside_a_resident_kernel",
                                           "exit_at_once_beside_a_resident_kernel", "exit_while_threads_read",
                                           "fork_beside_a_resident_kernel", "synchronise_beside_a_resident_kernel"),
                         [](const ::testing::TestParamInfo<const char*>& row) { return std::string(row.param); });

}  // namespace
}  // namespace sluice::contract
