// One descriptor, one write() a line: lines of several threads and processes never mix, and nothing is buffered that
// a crash could lose.
#include "observe/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/unique_fd.h"

namespace sluice::observe {

namespace {

constexpr int closed = -1;
std::atomic<int> log_fd{closed};
std::atomic<int> log_level{static_cast<int>(config::LogLevel::error)};
std::mutex open_mutex;

constexpr std::string_view name_of(config::LogLevel level) {
  constexpr std::string_view names[] = {"ERROR", "WARN", "NOTICE", "INFO", "DEBUG", "TRACE"};
  return names[static_cast<std::size_t>(level)];
}

}  // namespace

std::string open_log(const config::Config& config) {
  const std::lock_guard lock(open_mutex);
  if (const auto level = config::parse_log_level(config.log_level)) log_level.store(static_cast<int>(*level));
  std::string path = config.log_file;
  if (path.empty() && !config.log_file_given && !config.log_dir.empty()) {
    path = fmt::format("{}/cufile_{}.log", config.log_dir, ::getpid());
  }
  // The descriptor is never closed: another thread may be writing to it. Re-opening replaces what it refers to.
  const int old = log_fd.load();
  if (path.empty()) {
    if (old != closed) {
      const base::UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
      if (null) ::dup3(null.get(), old, O_CLOEXEC);
    }
    return {};
  }
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  if (!fd) {
    const int error = errno;
    if (error == ELOOP) return path + " is a symbolic link: name the file itself; logging is off";
    return fmt::format("cannot open {} ({}): logging is off", path, std::strerror(error));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return path + " is not a regular file; logging is off";
  }
  if (old != closed) {
    ::dup3(fd.get(), old, O_CLOEXEC);
  } else {
    // High numbers stay out of the way of programs that count on low ones.
    const int high = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 64);
    if (high < 0) return fmt::format("no descriptor left for {}: logging is off", path);
    log_fd.store(high);
  }
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
    // A full disk must not stop the program: a line that cannot be written is gone.
    [[maybe_unused]] const auto written = ::write(log_fd.load(), line.data(), line.size());
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a log line is no reason to fail the call
  }
}

}  // namespace sluice::observe
