// SPDX-License-Identifier: Apache-2.0
// Small readers of procfs, sysfs and text files.
#include "facts/read.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <memory>

#include "base/unique_fd.h"

namespace sluice::facts {

namespace {

// mountinfo of a large container host is a few MiB; whatever is larger than this is not one of our files.
constexpr std::size_t longest_file = 64u << 20;

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

// Regular files alone, as all of procfs and sysfs are: a pipe would wait for a writer, and a device may never end.
base::UniqueFd open_for_reading(const std::string& path) {
  base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat status {};
  if (fd && (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))) fd.reset();
  return fd;
}

ssize_t read_some(int fd, char* into, std::size_t room) {
  ssize_t got = 0;
  do {
    got = ::read(fd, into, room);
  } while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

std::optional<std::string> read_text(const std::string& path) {
  const base::UniqueFd fd = open_for_reading(path);
  if (!fd) return std::nullopt;

  // Generated files report size 0, and mountinfo is consistent within one read only: few large reads, until the end.
  std::string text;
  std::size_t filled = 0;
  while (filled < longest_file) {
    if (text.size() - filled < 16384) text.resize(std::max<std::size_t>(65536, text.size() * 2));
    const ssize_t got = read_some(fd.get(), text.data() + filled, text.size() - filled);
    if (got < 0) return std::nullopt;
    if (got == 0) {
      text.resize(filled);
      return text;
    }
    filled += static_cast<std::size_t>(got);
  }
  return std::nullopt;
}

std::vector<bool> file_contains(const std::string& path, const std::vector<std::string_view>& wanted) {
  std::vector<bool> found(wanted.size(), false);
  const base::UniqueFd fd = open_for_reading(path);
  if (!fd) return found;

  // What may be the start of a text at the end of one piece stays in front of the next one.
  std::size_t longest = 0;
  for (const std::string_view text : wanted) longest = std::max(longest, text.size());
  std::string piece(longest + 65536, '\0');
  std::size_t kept = 0;
  while (std::find(found.begin(), found.end(), false) != found.end()) {
    const ssize_t got = read_some(fd.get(), piece.data() + kept, piece.size() - kept);
    if (got <= 0) break;
    const std::size_t filled = kept + static_cast<std::size_t>(got);
    const std::string_view seen = std::string_view(piece).substr(0, filled);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!found[i]) found[i] = seen.find(wanted[i]) != std::string_view::npos;
    }
    kept = std::min(filled, longest);
    piece.replace(0, kept, piece, filled - kept, kept);
  }
  return found;
}

std::optional<std::string> read_value(const std::string& path) {
  const std::optional<std::string> text = read_text(path);
  if (!text) return std::nullopt;
  return std::string(trimmed(std::string_view(*text).substr(0, text->find('\n'))));
}

std::optional<std::string> read_link(const std::string& path) {
  std::array<char, PATH_MAX> target;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length <= 0 || static_cast<std::size_t>(length) == target.size()) return std::nullopt;
  return std::string(target.data(), static_cast<std::size_t>(length));
}

std::vector<std::string> list_names(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(path.c_str()));
  if (!directory) return names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::string_view last_component(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string_view parent_path(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace sluice::facts
