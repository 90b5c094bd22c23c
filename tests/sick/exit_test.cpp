// SPDX-License-Identifier: Apache-2.0
// The end of a process in the midst of transfers that are stuck in their storage.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "sick/sick_storage.h"

namespace sluice::sick {
namespace {

using namespace support;

// Exit gives what is stuck 5 s in all, whatever it is; the test does not kill the process. (Load may add to that.)
TEST_F(SickStorage, KeepsNoProcessFromEnding) {
  const Fd reading = ward_->open(0, O_RDWR);
  const Fd writing = ward_->open(1, O_RDWR | O_DIRECT);
  fall_silent();
  std::array<int, 2> input{};
  std::array<int, 2> output{};
  ASSERT_EQ(pipe2(input.data(), O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(output.data(), O_CLOEXEC), 0);
  Fd until_closed(input[1]);
  const Fd told(output[0]);
  const std::string program = (std::filesystem::canonical("/proc/self/exe").parent_path() / "stuck_at_exit").string();
  const pid_t child = fork();
  if (child == 0) {
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    dup2(reading.get(), 200);
    dup2(writing.get(), 201);
    execl(program.c_str(), program.c_str(), "200", "201", nullptr);
    _exit(127);
  }
  close(input[0]);
  close(output[1]);
  EXPECT_TRUE(ward_->withholds(4)) << ward_->condition().withheld << " requests";
  until_closed.reset();
  pollfd ready{told.get(), POLLIN, 0};
  constexpr int most_ms = 10'000;
  EXPECT_EQ(poll(&ready, 1, most_ms), 1) << "its exit handlers are not through";
  EXPECT_NE(ready.revents & POLLIN, 0);
  cure();
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace sluice::sick
