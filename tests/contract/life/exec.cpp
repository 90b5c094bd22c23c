// SPDX-License-Identifier: Apache-2.0
// exec while the library is in use: the new program starts clean and works.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "contract/life/scenario.h"

namespace sluice::life {

using namespace support;

namespace {

std::set<int> open_descriptors() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    found.insert(std::stoi(entry.path().filename()));
  }
  return found;
}

// What this process was given by the one that started it does not go on to the new program: what arrives there is ours.
void keep_back_what_was_inherited() {
  for (const int fd : open_descriptors()) {
    if (fd > STDERR_FILENO) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

// The new program: it has the usual three descriptors and the one that lists them.
int work_after_exec() {
  for (const int fd : open_descriptors()) {
    const std::string name = "/proc/self/fd/" + std::to_string(fd);
    if (fd <= STDERR_FILENO || !std::filesystem::exists(std::filesystem::symlink_status(name))) continue;
    const std::string file = std::filesystem::read_symlink(name).string();
    if (sanitized && file.starts_with("pipe:")) continue;  // by which UndefinedBehaviorSanitizer looks at memory
    fail("handed on: descriptor " + std::to_string(fd) + ", " + file);
  }
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  require(sigismember(&blocked, SIGTERM) == 0, "a blocked signal was handed on");
  World::open().use();
  say("the new program is done");
  return 0;
}

[[noreturn]] void become_the_new_program() {
  std::array<char, 16> name{"life_program"};
  std::array<char, 16> scenario{"work_after_exec"};
  std::array<char*, 3> words{name.data(), scenario.data(), nullptr};
  execv("/proc/self/exe", words.data());
  fail("exec");
}

void stand_still_in_a_transfer() {
  static auto* const gated = new GatedFile(scenario_bytes);
  static auto* const memory = new Memory(usual_memory(), scenario_bytes);
  std::thread([] { read_file(gated->handle(), memory->address(), scenario_bytes); }).detach();
  gated->wait_until_inside();
}

int exec_with_everything_open() {
  keep_back_what_was_inherited();
  World::open();
  become_the_new_program();
}

int exec_with_a_transfer_in_flight() {
  keep_back_what_was_inherited();
  World::open();
  stand_still_in_a_transfer();
  become_the_new_program();
}

int exec_by_another_thread() {
  keep_back_what_was_inherited();
  World::open();
  stand_still_in_a_transfer();
  std::thread(become_the_new_program).join();
  return 1;
}

int exec_in_a_forked_child() {
  keep_back_what_was_inherited();
  World::open();
  stand_still_in_a_transfer();
  if (fork() == 0) become_the_new_program();
  int status = 0;
  wait(&status);
  World::open().use();
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

constexpr Scenario exec_all[] = {
    {"work_after_exec", work_after_exec},
    {"exec_with_everything_open", exec_with_everything_open},
    {"exec_with_a_transfer_in_flight", exec_with_a_transfer_in_flight},
    {"exec_by_another_thread", exec_by_another_thread},
    {"exec_in_a_forked_child", exec_in_a_forked_child},
};

}  // namespace

std::span<const Scenario> exec_scenarios() {
  return exec_all;
}

}  // namespace sluice::life
