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

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

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
  static auto* const path = new std::string;
  return *path;
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

bool is_full(int fd, std::size_t more) {
  const std::int64_t cap = log_cap.load(std::memory_order_relaxed);
  struct stat status {};
  return cap > 0 && ::fstat(fd, &status) == 0 && status.st_size > 0 &&
         status.st_size + static_cast<std::int64_t>(more) > cap;
}

// What is written from now on goes nowhere. With open_mutex held.
void silence() {
  log_path().clear();
  const int fd = log_fd.load();
  if (fd == closed) return;
  const base::UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (null) ::dup3(null.get(), fd, O_CLOEXEC);
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
  if (!lock || path.empty() || !is_full(fd, more)) return;
  const base::UniqueFd fresh = make_way(path, fd) ? open_file(path) : base::UniqueFd();
  struct stat opened {};
  if (fresh && ::fstat(fresh.get(), &opened) == 0 && S_ISREG(opened.st_mode)) {
    ::dup3(fresh.get(), fd, O_CLOEXEC);
  } else {
    [[maybe_unused]] const int emptied = ::ftruncate(fd, 0);
  }
}

}  // namespace

std::string open_log(const config::Config& config) {
  const std::lock_guard lock(open_mutex);
  if (const auto level = config::parse_log_level(config.log_level)) log_level.store(static_cast<int>(*level));
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
  if (const int old = log_fd.load(); old != closed) {
    ::dup3(fd.get(), old, O_CLOEXEC);
  } else {
    // High numbers stay out of the way of programs that count on low ones.
    const int high = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 64);
    if (high < 0) return fmt::format("no descriptor left for {}: logging is off", path);
    log_fd.store(high);
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
    if (is_full(log_fd.load(), line.size())) begin_anew(line.size());
    // A full disk must not stop the program: a line that cannot be written is gone.
    [[maybe_unused]] const auto written = ::write(log_fd.load(), line.data(), line.size());
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a log line is no reason to fail the call
  }
}

}  // namespace sluice::observe
