// SPDX-License-Identifier: Apache-2.0
#include "common/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

constexpr int most_links = 40;  // as the kernel has it

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string base_of(const std::string& path) {
  return path.substr(folder_of(path).size());
}

// A link there (/dev/stdout leads to one) is an open file and no name.
bool is_in_proc(const std::string& folder) {
  struct statfs about {};
  return statfs(folder.empty() ? "." : folder.c_str(), &about) == 0 && about.f_type == PROC_SUPER_MAGIC;
}

// As with fs.protected_symlinks: in a folder like /tmp a link leads only its owner, or where the folder's owner wants.
bool is_a_trap(const std::string& link) {
  const std::string folder = folder_of(link).empty() ? "." : folder_of(link);
  struct stat there {};
  struct stat around {};
  if (lstat(link.c_str(), &there) != 0 || !S_ISLNK(there.st_mode) || stat(folder.c_str(), &around) != 0) return false;
  const bool all_may_write = (around.st_mode & S_ISVTX) != 0 && (around.st_mode & S_IWOTH) != 0;
  return all_may_write && there.st_uid != geteuid() && there.st_uid != around.st_uid;
}

// What a chain of links leads to, which need not be there; or the link that is not to be followed.
std::string behind_links(std::string path) {
  std::array<char, PATH_MAX> target{};
  for (int i = 0; i < most_links && !is_in_proc(folder_of(path)) && !is_a_trap(path); ++i) {
    const ssize_t length = readlink(path.c_str(), target.data(), target.size());
    if (length <= 0 || length == static_cast<ssize_t>(target.size())) break;
    const std::string next(target.data(), static_cast<std::size_t>(length));
    path = next.front() == '/' ? next : folder_of(path).append(next);
  }
  return path;
}

}  // namespace

OutputFile::OutputFile(const std::string& path, std::string what, int status, std::string remedy)
    : path_(path), target_(behind_links(path)), what_(std::move(what)), remedy_(std::move(remedy)), status_(status) {
  if (path.empty()) refuse("the name is empty");
  if (is_a_trap(target_)) refuse("it is a link of another user, in a folder that all may write to");
  struct stat there {};
  const bool exists = stat(target_.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) refuse(system_words(errno));
  if (exists && S_ISDIR(there.st_mode)) refuse(system_words(EISDIR));
  if (exists && (S_ISBLK(there.st_mode) || S_ISSOCK(there.st_mode))) {
    refuse(S_ISSOCK(there.st_mode) ? "it is a socket" : "it is a block device");
  }
  if (exists && (!S_ISREG(there.st_mode) || is_in_proc(folder_of(target_)))) {
    through_ = open(target_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    if (through_ < 0) refuse(system_words(errno));
    return;
  }
  if (exists && faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) refuse(system_words(errno));
  // Made and taken away again: nothing is left where this process is ended during the work.
  std::string beside;
  const int fd = make_beside(beside);
  if (fd >= 0) {
    close(fd);
    unlink(beside.c_str());
    return;
  }
  const int why = errno;
  // A file that may be written in a folder that may not: not as a whole then.
  if (exists) through_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  if (through_ < 0) refuse(system_words(why));
}

OutputFile::~OutputFile() {
  if (through_ >= 0) close(through_);
}

void OutputFile::write(std::string_view content) {
  struct stat before {};
  if (through_ >= 0) {
    put(through_, content);
    const bool is_file = fstat(through_, &before) == 0 && S_ISREG(before.st_mode);
    const bool is_appended = (fcntl(through_, F_GETFL) & O_APPEND) != 0;
    if (is_file && !is_appended && ftruncate(through_, static_cast<off_t>(content.size())) != 0)
      refuse(system_words(errno));
    const int fd = std::exchange(through_, -1);
    if (close(fd) != 0) refuse(system_words(errno));
    return;
  }
  std::string beside;
  const int fd = make_beside(beside);
  if (fd < 0) refuse(system_words(errno));
  try {
    put(fd, content);
    if (stat(target_.c_str(), &before) == 0) {
      // Its mode stays, and its owner where this process may say so; another group gets nothing of it.
      if (fchown(fd, before.st_uid, before.st_gid) == 0) {
        fchmod(fd, before.st_mode & 0777);
      } else if (before.st_uid == geteuid()) {
        fchmod(fd, before.st_mode & 0707);
      }
    }
  } catch (...) {
    close(fd);
    unlink(beside.c_str());
    throw;
  }
  if (close(fd) != 0) {
    const int why = errno;
    unlink(beside.c_str());
    refuse(system_words(why));
  }
  if (std::rename(beside.c_str(), target_.c_str()) != 0) {
    const int why = errno;
    // A mount of this one file, or a file of another user in a folder like /tmp: it can be written, and not replaced.
    const int direct = open(target_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (direct >= 0) {
      put(direct, content);
      if (close(direct) != 0) refuse(system_words(errno));
      unlink(beside.c_str());
      return;
    }
    throw ToolError(fmt::format("{} is whole in {}, but cannot take the name {}: {}.", what_, printable(beside),
                                printable(path_), system_words(why)),
                    "Move it by hand, or choose another place.", status_);
  }
}

void OutputFile::refuse(const std::string& why) const {
  throw ToolError(fmt::format("{} cannot be written to {}: {}.", what_, printable(path_), why), remedy_, status_);
}

void OutputFile::put(int fd, std::string_view content) const {
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) refuse(system_words(count < 0 ? errno : ENOSPC));
    content.remove_prefix(static_cast<std::size_t>(count));
  }
}

// A new file in the folder of the target; -1 and errno where none can be made.
int OutputFile::make_beside(std::string& name) const {
  constexpr std::size_t longest = 200;
  for (int number = 0;; ++number) {
    name = fmt::format("{}.{}.{}-{}.tmp", folder_of(target_), base_of(target_).substr(0, longest), getpid(), number);
    const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

}  // namespace sluice::tools
