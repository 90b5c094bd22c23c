// SPDX-License-Identifier: Apache-2.0
// Ways for a process to end, to become another, to live on little, and to see its devices reset: each in a process of
// its own, played by life_program.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "contract/life/child.h"
#include "support/calls.h"

namespace sluice::contract {
namespace {

using life::Ended;
using life::run_beside;

struct Row {
  const char* scenario;
  const char* output = "";
};

void PrintTo(const Row& row, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << row.scenario;
}

constexpr const char* kDestructor = "the destructor is done\n";
constexpr const char* kHandler = "the handler is done\n";
constexpr const char* kDone = "done\n";

class LifeProcess : public ::testing::TestWithParam<Row> {};

// All but the one line that the library may print: where a machine has a configuration file and it cannot be opened.
std::string without_complaint(const std::string& output) {
  const std::size_t line_end = output.find('\n');
  const bool complains = output.starts_with("sluice: /etc/cufile.json: it cannot be opened");
  return complains && line_end != std::string::npos ? output.substr(line_end + 1) : output;
}

TEST_P(LifeProcess, PlaysItsScenarioToTheEnd) {
  const Ended ended = run_beside("life_program", {GetParam().scenario});
  if (ended.skipped()) GTEST_SKIP() << ended.output;
  EXPECT_EQ(without_complaint(ended.output), GetParam().output);
  EXPECT_EQ(ended.signal, 0) << strsignal(ended.signal);
  EXPECT_EQ(ended.status, 0);
}

std::string name_of_row(const ::testing::TestParamInfo<Row>& info) {
  return info.param.scenario;
}

INSTANTIATE_TEST_SUITE_P(
    Ending, LifeProcess,
    ::testing::Values(Row{"return_from_main"}, Row{"destructor_made_before_the_first_call", kDestructor},
                      Row{"destructor_made_after_the_first_call", kDestructor},
                      Row{"handler_registered_before_the_first_call", kHandler},
                      Row{"handler_registered_after_the_first_call", kHandler},
                      Row{"first_call_in_a_handler", kHandler}, Row{"quick_exit_with_everything_open", kHandler},
                      Row{"exit_at_once_with_everything_open"}, Row{"exit_waits_for_a_transfer", kDestructor},
                      Row{"exit_waits_for_a_transfer_to_a_device", kHandler},
                      Row{"exit_by_another_thread_waits_for_a_transfer", kDestructor}, Row{"exit_lets_busy_threads_be"},
                      Row{"exit_waits_for_what_a_batch_has_begun", kDestructor},
                      Row{"exit_at_once_with_a_batch_in_flight"}, Row{"quick_exit_with_a_transfer_in_flight"},
                      Row{"exit_at_once_with_a_transfer_in_flight"},
                      Row{"main_thread_ends_first", "the thread is done\n"}),
    name_of_row);

INSTANTIATE_TEST_SUITE_P(Waiting, LifeProcess,
                         ::testing::Values(Row{"exit_by_a_signal_handler_while_its_thread_waits_for_events", kHandler}),
                         name_of_row);

INSTANTIATE_TEST_SUITE_P(Thread, LifeProcess,
                         ::testing::Values(Row{"transfers_in_a_threads_last_destructor", "the threads are done\n"},
                                           Row{"staging_memory_is_not_lent_twice"},
                                           Row{"lanes_are_not_tied_like_the_thread_that_needs_them"},
                                           Row{"transfers_at_exit_use_staging_memory_of_their_own", kHandler}),
                         name_of_row);

INSTANTIATE_TEST_SUITE_P(Exec, LifeProcess,
                         ::testing::Values(Row{"exec_with_everything_open", "the new program is done\n"},
                                           Row{"exec_with_a_transfer_in_flight", "the new program is done\n"},
                                           Row{"exec_by_another_thread", "the new program is done\n"},
                                           Row{"exec_in_a_forked_child", "the new program is done\n"}),
                         name_of_row);

INSTANTIATE_TEST_SUITE_P(Limit, LifeProcess,
                         ::testing::Values(Row{"memlock_zero", kDone}, Row{"nofile_zero", kDone},
                                           Row{"nofile_used_up", kDone}, Row{"core_zero", kDone},
                                           Row{"sigpending_zero", kDone}, Row{"msgqueue_and_rtprio_zero", kDone},
                                           Row{"nproc_zero", kDone}, Row{"fsize_zero", kDone},
                                           Row{"no_address_space", kDone}, Row{"no_data_segment", kDone},
                                           Row{"no_memory_at_the_first_call", kDone}, Row{"stack_tiny", kDone},
                                           Row{"stack_of_a_calling_thread_tiny", kDone}),
                         name_of_row);

INSTANTIATE_TEST_SUITE_P(
    Stream, LifeProcess,
    ::testing::Values(Row{"exit_with_work_in_a_stream"},
                      Row{"exit_closes_the_driver_with_work_in_a_stream", kDestructor},
                      Row{"exit_opens_the_way_for_a_stream", kHandler},
                      Row{"exit_waits_for_what_a_stream_has_got_to", kDestructor},
                      Row{"exit_at_once_while_streams_are_served"},
                      Row{"context_ends_with_work_in_its_stream", "the contexts are done\n"},
                      Row{"context_is_replaced_while_a_read_of_its_stream_stands_still", "the contexts are done\n"},
                      Row{"context_is_used_first_while_its_stream_is_held", "the context is done\n"},
                      Row{"device_is_reset_with_work_in_a_stream", "the device is done\n"},
                      Row{"is_stopped_while_a_file_ends_with_work_in_its_stream", "the stream is done\n"}),
    name_of_row);

INSTANTIATE_TEST_SUITE_P(Device, LifeProcess,
                         ::testing::Values(Row{"reset_of_the_device", "the device is done\n"},
                                           Row{"reset_of_another_device", "the devices are done\n"},
                                           Row{"cuda_begins_in_a_forked_child", "the child is done\n"}),
                         name_of_row);

TEST(LifeProcessLoading, OfOurKernelsIsWaitedForAtExit) {
  const Ended ended =
      run_beside("life_program", {"exit_waits_until_our_kernels_are_loaded"}, {"SLUICE_SOFTGPU_LOAD_US=600000"});
  if (ended.skipped()) GTEST_SKIP() << ended.output;
  EXPECT_EQ(without_complaint(ended.output), kHandler);
  EXPECT_EQ(ended.signal, 0) << strsignal(ended.signal);
  EXPECT_EQ(ended.status, 0);
}

TEST(LifeProcessLoading, OfOurKernelsLetsTheProgramGoOn) {
  const Ended ended = run_beside("life_program", {"kernels_are_loaded_while_a_stream_waits_for_the_program"},
                                 {"SLUICE_SOFTGPU_LOAD_US=200000"});
  if (ended.skipped()) GTEST_SKIP() << ended.output;
  EXPECT_EQ(without_complaint(ended.output), "the stream is done\n");
  EXPECT_EQ(ended.signal, 0) << strsignal(ended.signal);
  EXPECT_EQ(ended.status, 0);
}

TEST(LifeProcessKilled, WithATransferInFlightDiesAtOnce) {
  const Ended ended = run_beside("life_program", {"killed_with_a_transfer_in_flight"});
  EXPECT_EQ(ended.output, "");
  EXPECT_EQ(ended.signal, SIGTERM);
}

// What the library writes into its log tells whether it gave up waiting.
class LifeProcessLog : public ::testing::Test {
 protected:
  ~LifeProcessLog() override { std::filesystem::remove(path_); }
  Ended run(const std::string& scenario) const {
    return run_beside("life_program", {scenario}, {"CUFILE_LOGFILE_PATH=" + path_});
  }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("sluice-life-" + std::to_string(getpid()) + ".log");
};

TEST_F(LifeProcessLog, TellsThatExitGaveUpOnATransferThatDoesNotEnd) {
  const Ended ended = run("exit_does_not_wait_for_ever");
  EXPECT_EQ(ended.output, kDestructor);
  EXPECT_EQ(ended.status, 0);
  EXPECT_NE(content().find("in flight"), std::string::npos) << content();
}

TEST_F(LifeProcessLog, IsSilentWhenAThreadEndsTheProcessInsideItsOwnTransfer) {
  for (const char* scenario : {"exit_inside_a_transfer", "exit_by_a_signal_handler_inside_a_transfer"}) {
    SCOPED_TRACE(scenario);
    const Ended ended = run(scenario);
    EXPECT_EQ(ended.output, kDestructor);
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(content().find("in flight"), std::string::npos) << content();
  }
}

TEST_F(LifeProcessLog, IsNotHandedOnToANewProgram) {
  const Ended ended = run("exec_with_everything_open");
  EXPECT_EQ(ended.output, "the new program is done\n");
  EXPECT_EQ(ended.status, 0);
}

TEST(LifeUnlinked, StaysWhenItIsClosedUnderATransfer) {
  const Ended ended = run_beside("life_unlinked", {life::path_beside("../lib/libcufile.so.0")});
  EXPECT_EQ(ended.output, kDone);
  EXPECT_EQ(ended.signal, 0);
  EXPECT_EQ(ended.status, 0);
}

}  // namespace
}  // namespace sluice::contract
