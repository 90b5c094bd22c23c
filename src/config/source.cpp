// SPDX-License-Identifier: Apache-2.0
// Plain system calls: the library brings no stream objects along.
#include "config/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/unique_fd.h"

namespace sluice::config {

namespace {

constexpr std::size_t largest_file = std::size_t{1} << 20;

std::string words_for(int error) {
  return std::generic_category().message(error);
}

}  // namespace

const char* process_environment(const char* name) {
  return ::secure_getenv(name);
}

void say_on_stderr(const std::string& line) {
  // One write: lines of several threads do not mix. There is no place to tell that stderr is closed.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

std::variant<FileText, NoFile, UnusableFile> read_configuration_file(const std::string& path) {
  // O_NONBLOCK: a pipe without a writer would wait for ever.
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) return NoFile{};
    return UnusableFile{"it cannot be opened (" + words_for(errno) + ")"};
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return UnusableFile{"it cannot be examined (" + words_for(errno) + ")"};
  if (S_ISDIR(status.st_mode)) return UnusableFile{"it is a directory"};
  if (!S_ISREG(status.st_mode)) return UnusableFile{"it is no regular file"};

  FileText file;
  std::array<char, 16384> piece{};
  while (file.text.size() <= largest_file) {
    const ssize_t count = ::read(fd.get(), piece.data(), piece.size());
    if (count == 0) return file;
    if (count > 0) {
      file.text.append(piece.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      return UnusableFile{"it cannot be read (" + words_for(errno) + ")"};
    }
  }
  return UnusableFile{"it is larger than 1 MiB"};
}

}  // namespace sluice::config
