// exec while the library is in use: the new program starts clean and works.
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

// The new program: it has the usual three descriptors, the one that lists them and those that its test let through.
int work_after_exec() {
  for (const int fd : open_descriptors()) {
    if (fd <= STDERR_FILENO || !std::filesystem::exists("/proc/self/fd/" + std::to_string(fd))) continue;
    const std::string target = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
    for (const char* ours : {"sluice", "cufile", "(deleted)"}) {
      if (target.find(ours) != std::string::npos) fail("handed on: descriptor " + std::to_string(fd) + ", " + target);
    }
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
  World::open();
  become_the_new_program();
}

int exec_with_a_transfer_in_flight() {
  World::open();
  stand_still_in_a_transfer();
  become_the_new_program();
}

int exec_by_another_thread() {
  World::open();
  stand_still_in_a_transfer();
  std::thread(become_the_new_program).join();
  return 1;
}

int exec_in_a_forked_child() {
  World::open();
  stand_still_in_a_transfer();
  if (fork() == 0) become_the_new_program();
  int status = 0;
  wait(&status);
  World::open().use();
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

constexpr Scenario all[] = {
    {"work_after_exec", work_after_exec},
    {"exec_with_everything_open", exec_with_everything_open},
    {"exec_with_a_transfer_in_flight", exec_with_a_transfer_in_flight},
    {"exec_by_another_thread", exec_by_another_thread},
    {"exec_in_a_forked_child", exec_in_a_forked_child},
};

}  // namespace

std::span<const Scenario> exec_scenarios() {
  return all;
}

}  // namespace sluice::life
