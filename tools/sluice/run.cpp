// SPDX-License-Identifier: Apache-2.0
// `sluice run`: starts a program with our library preloaded, stands between it and its caller without being noticed,
// and says at the end which libcufile was mapped.
//
// The tool stays the parent: it passes on signals that were sent to it alone, stops and continues with the program, and
// ends the way the program ends. Terminal signals reach the program directly, both are in one process group.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "common/error.h"
#include "common/layout.h"
#include "common/output_file.h"
#include "common/text.h"
#include "common/written.h"
#include "sluice/commands.h"
#include "sluice/counters.h"
#include "sluice/preload_check.h"
#include "sluice/statuses.h"
#include "sluice/testimony.h"
#include "witness/protocol.h"

namespace sluice::tools {
namespace {

// Exit statuses of the tool itself, as env, nohup and timeout have them.
constexpr int status_cannot_execute = 126;
constexpr int status_not_found = 127;

constexpr std::chrono::milliseconds first_look{500};
constexpr std::chrono::milliseconds longest_pause{60'000};

[[noreturn]] void fail(const char* what) {
  throw ToolError(fmt::format("{}: {}.", what, system_words(errno)), "Look at the limits of this process (ulimit -a).",
                  status_own_failure);
}

// Where the witnesses' datagrams arrive. The kernel chooses the abstract name.
class Listener {
 public:
  Listener() {
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const int on = 1;
    if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
        bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) != 0) {
      fail("cannot make a local socket");
    }
    socklen_t length = sizeof address;
    if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) fail("cannot name a local socket");
    name_.assign(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { close(fd_); }

  int fd() const noexcept { return fd_; }
  const std::string& name() const noexcept { return name_; }

  // Hears all that has arrived. Any process on the machine can send to an abstract socket; only this user is listened
  // to, and, when this user is root, all that root may have started.
  void drain(Testimony& testimony) const {
    std::array<char, witness_message_limit> text{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
    while (true) {
      iovec part{text.data(), text.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t length = recvmsg(fd_, &message, 0);
      if (length < 0 && errno == EINTR) continue;
      if (length < 0) return;
      const cmsghdr* header = CMSG_FIRSTHDR(&message);
      if (header == nullptr || header->cmsg_type != SCM_CREDENTIALS) continue;
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
      if (getuid() != 0 && sender.uid != getuid()) continue;
      testimony.hear(sender.pid, {text.data(), static_cast<std::size_t>(length)});
    }
  }

 private:
  int fd_ = -1;
  std::string name_;
};

// The signals as this process got them, to be given to the program unchanged.
struct InheritedSignals {
  sigset_t mask{};
  struct sigaction child_action {};
};

bool is_one(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::strcmp(value, "1") == 0;
}

std::string preload_list(const Layout& layout, bool soft_gpu) {
  std::vector<std::string> parts = {layout.library};
  if (soft_gpu) {
    if (!layout.soft_gpu) {
      throw ToolError("The soft GPU is not installed next to this tool.",
                      "Install Sluice with its lib/sluice/softgpu folder, or leave --soft-gpu out.",
                      status_own_failure);
    }
    parts.push_back(*layout.soft_gpu);
  }
  if (layout.witness) parts.push_back(*layout.witness);
  for (const std::string& part : parts) {
    if (part.find_first_of(" :") != std::string::npos) {
      throw ToolError(
          fmt::format("The loader cannot preload {}: blanks and colons separate the names in LD_PRELOAD.", part),
          "Move or install Sluice to a path without blanks and colons.", status_own_failure);
    }
  }
  std::string list = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) list += ":" + parts[i];
  if (const char* existing = std::getenv("LD_PRELOAD"); existing != nullptr && *existing != '\0') {
    list += std::string(":") + existing;
  }
  return list;
}

void prepare_environment(const RunOptions& options, const Layout& layout, const std::string& listener_name) {
  const bool soft_gpu = options.soft_gpu || is_one("SLUICE_SOFTGPU");
  setenv("LD_PRELOAD", preload_list(layout, soft_gpu).c_str(), 1);
  setenv(witness_variable, listener_name.c_str(), 1);
  if (options.explain) setenv("SLUICE_EXPLAIN", "1", 1);
  if (layout.configuration && access("/etc/cufile.json", F_OK) != 0) {
    setenv("CUFILE_ENV_PATH_JSON", layout.configuration->c_str(), 0);
  }
}

// Between fork and exec: only what is safe there. Reports the errno of a failed exec through `report`.
[[noreturn]] void become(const std::vector<char*>& arguments, const InheritedSignals& signals, pid_t parent,
                         int report) {
  // A tool that is killed for good takes its program along.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(status_own_failure);
  sigaction(SIGCHLD, &signals.child_action, nullptr);
  sigprocmask(SIG_SETMASK, &signals.mask, nullptr);
  execvp(arguments.front(), arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof error);
  _exit(status_own_failure);
}

// The program was there a moment ago: what the kernel does not find is what it is to be executed by.
[[noreturn]] void refuse_to_execute(const std::string& command, const std::string& program, int error) {
  const std::optional<std::string> missing = error == ENOENT ? missing_interpreter(program) : std::nullopt;
  if (missing) {
    throw ToolError(
        fmt::format("{} cannot be executed: its interpreter {} is not there.", printable(command), printable(*missing)),
        "Install it, or correct the first line (#!) of the script, or build the program for this machine.",
        status_cannot_execute);
  }
  throw ToolError(fmt::format("{} cannot be executed: {}.", printable(command), system_words(error)),
                  "Check its permissions, its first line (#!) and that it was built for this machine.",
                  status_cannot_execute);
}

pid_t start(const RunOptions& options, const std::string& program, const InheritedSignals& signals) {
  std::vector<std::string> words = options.command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  std::array<int, 2> report{};
  if (pipe2(report.data(), O_CLOEXEC) != 0) fail("cannot make a pipe");
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child < 0) fail("cannot start a process");
  if (child == 0) become(arguments, signals, self, report[1]);
  close(report[1]);
  int error = 0;
  ssize_t length = 0;
  do {
    length = read(report[0], &error, sizeof error);
  } while (length < 0 && errno == EINTR);
  close(report[0]);
  if (length == 0) return child;
  waitpid(child, nullptr, 0);
  refuse_to_execute(words.front(), program, error);
}

// Takes every signal that can be taken out of normal delivery; they arrive at the descriptor instead.
int take_signals(InheritedSignals& inherited) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &standard, &inherited.child_action);
  sigset_t taken;
  sigfillset(&taken);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&taken, fault);
  sigprocmask(SIG_BLOCK, &taken, &inherited.mask);
  const int fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) fail("cannot listen for signals");
  return fd;
}

// What a process without this tool would have got. A terminal sends to the whole group: the program has those already.
void pass_on(const signalfd_siginfo& signal, pid_t child) {
  const int number = static_cast<int>(signal.ssi_signo);
  if (number == SIGCHLD || signal.ssi_code == SI_KERNEL) return;
  kill(child, number);
}

// The program's end, once it came. While a terminal keeps the program stopped, this tool is stopped, too, so that the
// shell sees its job stop. SIGSTOP is nothing of a terminal's: its sender will continue the program alone.
std::optional<int> reap(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
    if (!WIFSTOPPED(status)) return status;
    if (WSTOPSIG(status) == SIGSTOP) continue;
    raise(SIGSTOP);
    kill(child, SIGCONT);
  }
  return std::nullopt;
}

// Watches until the program ends. Returns its wait status.
int watch(pid_t child, int signals, const Listener& listener, Testimony& testimony, Companion* companion) {
  auto pause = first_look;
  auto next_look = std::chrono::steady_clock::now() + pause;
  while (true) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(next_look - std::chrono::steady_clock::now());
    if (companion != nullptr) left = std::min(left, companion->pause());
    const int beside = companion != nullptr ? companion->fd() : -1;
    std::array<pollfd, 3> sources{{{signals, POLLIN, 0}, {listener.fd(), POLLIN, 0}, {beside, POLLIN, 0}}};
    poll(sources.data(), sources.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    listener.drain(testimony);
    if (companion != nullptr) companion->look();
    signalfd_siginfo signal{};
    while (read(signals, &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
      if (signal.ssi_signo != SIGCHLD) testimony.look_at(child);
      pass_on(signal, child);
    }
    if (const std::optional<int> status = reap(child)) {
      listener.drain(testimony);
      return *status;
    }
    if (std::chrono::steady_clock::now() >= next_look) {
      testimony.look_at(child);
      pause = std::min(pause * 2, longest_pause);
      next_look = std::chrono::steady_clock::now() + pause;
    }
  }
}

// Ends this process the way the program ended: by the same signal (without a second core file), or with its status.
int end_like(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  prctl(PR_SET_DUMPABLE, 0);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(number, &standard, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  raise(number);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  return 128 + number;
}

constexpr const char* other_place = "Choose another place: --output FILE.";

bool write_counters(OutputFile& file, const std::string& text) {
  try {
    file.write(text);
    return true;
  } catch (const ToolError& error) {
    tell("sluice: {}\n        {}\n", error.what(), error.remedy());
    return false;
  }
}

}  // namespace

int run_command(const RunOptions& options) {
  const std::string& command = options.command.front();
  const std::optional<std::string> program = find_program(command);
  if (!program) {
    throw ToolError(fmt::format("There is no program {}.", printable(command)), "Check the name and PATH.",
                    status_not_found);
  }
  if (const std::optional<Obstacle> obstacle = preload_obstacle(*program)) {
    throw ToolError("Preloading cannot work: " + obstacle->sentence, obstacle->remedy, status_cannot_execute);
  }
  const Layout files = layout();
  const Listener listener;
  // Whether they can be written is found out before the program begins.
  std::optional<OutputFile> counters;
  if (!options.output.empty()) counters.emplace(options.output, "What is counted", status_own_failure, other_place);
  prepare_environment(options, files, listener.name());

  InheritedSignals inherited;
  const int signals = take_signals(inherited);
  const pid_t child = start(options, *program, inherited);
  Testimony testimony(files.library);
  const int status = watch(child, signals, listener, testimony, options.companion);
  std::string absence;
  if ((options.ending != Ending::line || !options.quiet) && !testimony.has_own_library()) {
    const Obstacle cause = cause_of_absence(*program, status);
    absence = cause.sentence + " " + cause.remedy;
  }
  bool is_lost = false;
  if (counters) {
    is_lost = !write_counters(*counters, counters_text(options, testimony, absence));
  } else if (options.ending != Ending::line) {
    tell_text(counters_text(options, testimony, absence));  // stdout is the program's
  } else if (!options.quiet) {
    for (const std::string& line : testimony.lines(command, absence)) tell("sluice: {}\n", line);
  }
  if (options.companion != nullptr) options.companion->ended();
  return is_lost && status == 0 ? status_own_failure : end_like(status);
}

}  // namespace sluice::tools
