// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "common/another_process.h"
#include "common/error.h"
#include "common/text.h"
#include "sluice_stats.h"

namespace sluice::tools {
namespace {

using std::chrono::milliseconds;

// What the file holds, or errno for why it cannot be read.
std::optional<std::string> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) return std::nullopt;
  return text;
}

bool names_libcufile(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return file.starts_with("libcufile.so") || (file.starts_with("libcufile-") && file.find(".so") != file.npos);
}

// "7f00-7f01 rw-s 00000000 00:01 2049   /memfd:sluice-stats (deleted)"
void read_line(const std::string& line, ProcessMaps& maps) {
  unsigned long long first = 0;
  unsigned long long last = 0;
  unsigned long long offset = 0;
  unsigned long long inode = 0;
  unsigned high = 0;
  unsigned low = 0;
  char rights[5] = {};
  int path_at = 0;
  const int found = std::sscanf(line.c_str(), "%llx-%llx %4s %llx %x:%x %llu %n", &first, &last, rights, &offset, &high,
                                &low, &inode, &path_at);
  if (found != 7 || path_at == 0) return;
  const std::string path = line.substr(static_cast<std::size_t>(path_at));
  if (path == "/memfd:" SLUICE_STATS_NAME " (deleted)" && rights[3] == 's' && offset == 0) {
    maps.shown.push_back({first, last - first, makedev(high, low), inode});
  } else if (names_libcufile(path) && std::ranges::find(maps.libraries, path) == maps.libraries.end()) {
    maps.libraries.push_back(path);
  }
}

constexpr std::size_t most_of_maps = 16U << 20;
constexpr std::size_t longest_line = 8192;  // a path has 4096 bytes at most, and escapes

}  // namespace

std::vector<ShownMapping> find_shown(pid_t pid) {
  ProcessMaps found;
  const int fd = ::open(fmt::format("/proc/{}/maps", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::vector<char> piece(65536);
  std::string line;
  std::size_t all = 0;
  for (ssize_t count = 0; all < most_of_maps && (count = ::read(fd, piece.data(), piece.size())) > 0;) {
    all += static_cast<std::size_t>(count);
    std::string_view rest(piece.data(), static_cast<std::size_t>(count));
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      line += rest.substr(0, end);
      rest.remove_prefix(end + 1);
      if (line.find(SLUICE_STATS_NAME) != line.npos) read_line(line, found);
      line.clear();
    }
    if (line.size() + rest.size() < longest_line) line += rest;
  }
  ::close(fd);
  return std::move(found.shown);
}

WatchedProcess::WatchedProcess(pid_t pid) : pid_(pid), name_(fmt::format("{}", pid)) {
  handle_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (::kill(pid, 0) != 0 && errno == ESRCH) {
    throw ToolError(fmt::format("There is no process {}.", pid), "`pgrep -a NAME` shows the numbers of a program.");
  }
  if (std::optional<std::string> command = content_of(path("comm"))) {
    if (!command->empty() && command->back() == '\n') command->pop_back();
    program_ = printable(*command);
    name_ = fmt::format("{} ({})", pid, program_);
  }
}

WatchedProcess::~WatchedProcess() {
  if (handle_ >= 0) ::close(handle_);
}

std::string WatchedProcess::path(const std::string& part) const {
  return fmt::format("/proc/{}/{}", pid_, part);
}

std::string WatchedProcess::status_line(const char* key) const {
  std::istringstream lines(content_of(path("status")).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return line.substr(std::string_view(key).size());
  }
  return {};
}

ProcessMaps WatchedProcess::maps() const {
  errno = 0;
  const std::optional<std::string> text = content_of(path("maps"));
  const int why = errno;
  if (has_ended() || status_line("State:").find('Z') != std::string::npos) {
    throw ToolError(fmt::format("Process {} has ended.", name_),
                    "Look at it while it runs: sluice stats --interval 1.");
  }
  if (!text) {
    throw ToolError(fmt::format("Process {} does not let you look: {}.", name_, system_words(why)), who_may_look());
  }
  ProcessMaps maps;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) read_line(line, maps);
  return maps;
}

std::optional<std::uint64_t> WatchedProcess::own_number() const {
  std::istringstream numbers(status_line("NSpid:"));
  std::optional<std::uint64_t> last;
  for (std::uint64_t number = 0; numbers >> number;) last = number;
  return last;
}

bool WatchedProcess::sandboxed() const {
  return status_line("Seccomp:").find('2') != std::string::npos;
}

bool WatchedProcess::ends_within(milliseconds time) const {
  if (handle_ >= 0) {
    pollfd wanted{handle_, POLLIN, 0};
    return ::poll(&wanted, 1, static_cast<int>(time.count())) == 1;
  }
  // Kernels before 5.3.
  std::this_thread::sleep_for(time);
  return ::kill(pid_, 0) != 0 && errno == ESRCH;
}

}  // namespace sluice::tools
