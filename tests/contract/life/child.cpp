// SPDX-License-Identifier: Apache-2.0
// Forking, starting, collecting. What a child says comes through a pipe.
#include "contract/life/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <stdexcept>
#include <utility>

#include "contract/life/hung.h"
#include "support/scratch.h"

namespace sluice::life {

namespace {

using support::Fd;

// A child that hangs is ended then, and the test tells what it was at. A child's own children have less time, so that
// the innermost is told of.
constexpr std::chrono::seconds kLongest{100};
constexpr std::chrono::seconds kLongestInside{50};
bool inside_a_child = false;

struct Pipe {
  Fd reader;
  Fd writer;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  return {Fd(ends[0]), Fd(ends[1])};
}

// What a child says to its end.
std::string listen_to(pid_t child, const Fd& fd) {
  const auto end = std::chrono::steady_clock::now() + (inside_a_child ? kLongestInside : kLongest);
  std::string text;
  std::array<char, 4096> piece{};
  for (bool hangs = false;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd news{fd.get(), POLLIN, 0};
    const int ready = poll(&news, 1, hangs ? -1 : static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      hangs = true;
      text += what_it_does(child);
      kill(child, SIGKILL);
      continue;
    }
    const ssize_t got = read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string folder_of_this_program() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) throw std::runtime_error("/proc/self/exe cannot be read");
  const std::string whole(path.data(), static_cast<std::size_t>(length));
  return whole.substr(0, whole.rfind('/'));
}

}  // namespace

std::string in_child(const std::function<std::string()>& body) {
  Pipe pipe = make_pipe();
  const pid_t child = fork();
  if (child < 0) return "fork failed";
  if (child == 0) {
    inside_a_child = true;
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = std::string("an exception: ") + error.what();
    }
    const ssize_t written = write(pipe.writer.get(), text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  pipe.writer.reset();
  const std::string text = listen_to(child, pipe.reader);
  const int status = wait_for(child);
  if (WIFSIGNALED(status)) return text + "the child died of " + strsignal(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? text : text + "the child left with " + std::to_string(WEXITSTATUS(status));
}

std::string path_beside(const std::string& program) {
  return folder_of_this_program() + "/" + program;
}

Ended run_beside(const std::string& program, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment) {
  const std::string path = path_beside(program);
  std::vector<char*> words{const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  // Ours come first: a later variable of the same name is not looked at.
  std::vector<char*> variables;
  for (const std::string& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  variables.push_back(nullptr);

  Pipe pipe = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe.writer.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe.writer.get(), STDERR_FILENO);
  pid_t child = 0;
  const int failed = posix_spawn(&child, path.c_str(), &actions, nullptr, words.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return {-1, 0, path + " cannot be started: " + strerror(failed)};
  pipe.writer.reset();
  Ended ended;
  ended.output = listen_to(child, pipe.reader);
  const int status = wait_for(child);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ended.status = WEXITSTATUS(status);
  return ended;
}

}  // namespace sluice::life
