// SPDX-License-Identifier: Apache-2.0
// One descriptor, one write() a line: lines of several threads and processes never mix, and nothing is buffered that
// a crash could lose. The number of the descriptor never changes, since other threads may be writing to it: a new file
// takes the place of the old one behind it.
#include "observe/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/never_destroyed.h"
#include "base/unique_fd.h"

namespace sluice::observe {

namespace {

constexpr int closed = -1;
std::atomic<int> log_fd{closed};
std::atomic<int> log_level{static_cast<int>(config::LogLevel::error)};
std::atomic<std::int64_t> log_cap{0};  // bytes; 0: none
std::mutex open_mutex;

// The name of the file behind log_fd, from the root; with open_mutex held. Never destroyed: threads log to the end.
std::string& log_path() {
  static base::NeverDestroyed<std::string> path;
  return path.get();
}

// What the descriptor stands for, now and while another file takes the place behind it. A program that closes all that
// it has not opened itself may have got the number for a file of its own, which is to be left alone.
struct Identity {
  std::atomic<std::uint64_t> device{0};
  std::atomic<std::uint64_t> inode{0};

  bool is_that_of(const struct stat& status) const {
    return device.load(std::memory_order_relaxed) == status.st_dev &&
           inode.load(std::memory_order_relaxed) == status.st_ino;
  }
  void become(const struct stat& status) {
    device.store(status.st_dev, std::memory_order_relaxed);
    inode.store(status.st_ino, std::memory_order_relaxed);
  }
};
Identity present;
Identity next;

// Another look where it seems not to be: the file may have changed between the two questions.
bool is_ours(int fd, struct stat& status) {
  constexpr int looks = 3;
  for (int look = 0; look < looks && ::fstat(fd, &status) == 0; ++look) {
    if (present.is_that_of(status) || next.is_that_of(status)) return true;
  }
  return false;
}

bool is_ours(int fd) {
  struct stat status {};
  return is_ours(fd, status);
}

// With open_mutex held, and a descriptor that is ours.
void put_behind(int fd, const base::UniqueFd& other) {
  struct stat status {};
  if (::fstat(other.get(), &status) != 0) return;
  next.become(status);
  ::dup3(other.get(), fd, O_CLOEXEC);
  present.become(status);
}

constexpr std::string_view name_of(config::LogLevel level) {
  constexpr std::string_view names[] = {"NOTICE", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
  return names[static_cast<std::size_t>(level)];
}

// A program that changes its working directory keeps its log where it was.
std::string from_the_root(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  char* const here = ::getcwd(nullptr, 0);
  std::string whole = here == nullptr ? path : std::string(here) + "/" + path;
  std::free(here);
  return whole;
}

std::int64_t cap_of(const config::Config& config) {
  constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
  const std::int64_t mebibytes = config.number(config::key_at("logging.max_file_size_mb"));
  return mebibytes < 0 ? 0 : mebibytes * mebibyte;
}

base::UniqueFd open_file(const std::string& path) {
  return base::UniqueFd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
}

bool is_full(const struct stat& status, std::size_t more) {
  const std::int64_t cap = log_cap.load(std::memory_order_relaxed);
  return cap > 0 && status.st_size > 0 && status.st_size + static_cast<std::int64_t>(more) > cap;
}

// What is written from now on goes nowhere. With open_mutex held.
void silence() {
  log_path().clear();
  const int fd = log_fd.load();
  if (fd == closed) return;
  const base::UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (null && is_ours(fd)) put_behind(fd, null);
}

// True when `path` is free for a new file: the full one behind `fd` has been moved away, by us or by another process.
bool make_way(const std::string& path, int fd) {
  struct stat ours {};
  struct stat named {};
  if (::lstat(path.c_str(), &named) != 0) return errno == ENOENT;
  if (::fstat(fd, &ours) != 0) return false;
  if (ours.st_dev != named.st_dev || ours.st_ino != named.st_ino) return true;
  return ::rename(path.c_str(), (path + ".old").c_str()) == 0;
}

// Where a full file cannot be moved away it is emptied: the cap holds in any case. Does not wait for the lock, which a
// thread may have held when this process was forked.
void begin_anew(std::size_t more) {
  const std::unique_lock lock(open_mutex, std::try_to_lock);
  const int fd = log_fd.load();
  const std::string& path = log_path();
  struct stat status {};
  if (!lock || path.empty() || !is_ours(fd, status) || !is_full(status, more)) return;
  const base::UniqueFd fresh = make_way(path, fd) ? open_file(path) : base::UniqueFd();
  struct stat opened {};
  if (fresh && ::fstat(fresh.get(), &opened) == 0 && S_ISREG(opened.st_mode)) {
    put_behind(fd, fresh);
  } else {
    [[maybe_unused]] const int emptied = ::ftruncate(fd, 0);
  }
}

}  // namespace

std::string open_log(const config::Config& config) {
  const std::lock_guard lock(open_mutex);
  log_level.store(static_cast<int>(config::parse_log_level(config.log_level).value_or(config::LogLevel::error)));
  std::string path = config.log_file;
  if (path.empty() && !config.log_file_given && !config.log_dir.empty()) {
    path = fmt::format("{}/cufile_{}.log", config.log_dir, ::getpid());
  }
  const auto off = [](std::string why) {
    silence();
    return why;
  };
  if (path.empty()) return off({});
  const base::UniqueFd fd = open_file(path);
  if (!fd) {
    const int error = errno;
    if (error == ELOOP) return off(path + " is a symbolic link: name the file itself; logging is off");
    return off(fmt::format("cannot open {} ({}): logging is off", path, std::strerror(error)));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return off(path + " is not a regular file; logging is off");
  }
  if (const int old = log_fd.load(); old != closed && is_ours(old)) {
    put_behind(old, fd);
  } else {
    // High numbers stay out of the way of programs that count on low ones.
    const int high = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 64);
    if (high < 0) return fmt::format("no descriptor left for {}: logging is off", path);
    next.become(status);
    log_fd.store(high);
    present.become(status);
  }
  log_cap.store(cap_of(config));
  log_path() = from_the_root(path);
  return {};
}

bool log_enabled(config::LogLevel level) noexcept {
  return log_fd.load(std::memory_order_relaxed) != closed &&
         static_cast<int>(level) <= log_level.load(std::memory_order_relaxed);
}

std::string format_log_line(config::LogLevel level, std::string_view module, std::string_view text) {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  struct tm local {};
  ::localtime_r(&now.tv_sec, &local);
  return fmt::format(" {:02}-{:02}-{:04} {:02}:{:02}:{:02}:{} [pid={} tid={}] {}  {} {}\n", local.tm_mday,
                     local.tm_mon + 1, local.tm_year + 1900, local.tm_hour, local.tm_min, local.tm_sec,
                     now.tv_nsec / 1000000, ::getpid(), ::syscall(SYS_gettid), name_of(level), module, text);
}

void log(config::LogLevel level, std::string_view module, std::string_view text) noexcept {
  if (!log_enabled(level)) return;
  try {
    const std::string line = format_log_line(level, module, text);
    struct stat status {};
    if (!is_ours(log_fd.load(), status)) return;
    if (is_full(status, line.size())) begin_anew(line.size());
    // A full disk must not stop the program: a line that cannot be written is gone.
    [[maybe_unused]] const auto written = ::write(log_fd.load(), line.data(), line.size());
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a log line is no reason to fail the call
  }
}

void log_failure(config::LogLevel level, std::string_view module, const char* text, const char* cause) noexcept {
  std::array<char, 512> whole{};
  const int length = std::snprintf(whole.data(), whole.size(), "%s: %s", text, cause);
  if (length > 0) log(level, module, {whole.data(), std::min(static_cast<std::size_t>(length), whole.size() - 1)});
}

void log_once(std::atomic<bool>& told, std::string_view module, std::string_view text) noexcept {
  constexpr auto level = config::LogLevel::notice;  // written whatever the level: it will not come again
  if (log_enabled(level) && !told.exchange(true, std::memory_order_relaxed)) log(level, module, text);
}

void log_before_fork() noexcept {
  open_mutex.lock();
}

void log_after_fork() noexcept {
  open_mutex.unlock();
}

}  // namespace sluice::observe
