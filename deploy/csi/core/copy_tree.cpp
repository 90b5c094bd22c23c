// SPDX-License-Identifier: Apache-2.0
#include "core/copy_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

class Copier {
 public:
  explicit Copier(Sharing sharing) : sharing_(sharing) {}

  // Folders are walked with a list of those to come: depth is the volume's, not this program's stack.
  CopyResult copy(const std::string& from, const std::string& to) {
    std::vector<std::pair<std::string, std::string>> folders = {{from, to}};
    for (std::size_t next = 0; next < folders.size(); ++next) {
      const auto [source, target] = folders[next];
      for (const std::string& name : facts::list_names(source)) {
        const std::string one = fmt::format("{}/{}", source, name);
        const std::string other = fmt::format("{}/{}", target, name);
        if (copy_entry(one, other)) folders.emplace_back(one, other);
      }
    }
    // Last, from the inside out: filling a folder changes its times.
    for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
      struct stat status {};
      if (lstat(folder->first.c_str(), &status) == 0) copy_attributes(folder->first, folder->second, status);
    }
    return result_;
  }

 private:
  // True for a folder, which is to be walked.
  bool copy_entry(const std::string& from, const std::string& to) {
    struct stat status {};
    if (lstat(from.c_str(), &status) != 0) {
      if (errno == ENOENT) return false;  // removed since the folder was listed
      refuse_errno("looking at " + from, errno);
    }
    if (S_ISDIR(status.st_mode)) {
      if (mkdir(to.c_str(), 0700) != 0) refuse_errno("making " + to, errno);
      return true;
    }
    ++result_.files;
    if (status.st_nlink > 1 && link_again(status, to)) return false;
    if (S_ISREG(status.st_mode)) {
      if (!copy_file(from, to, status)) return false;
    } else if (S_ISLNK(status.st_mode)) {
      const std::optional<std::string> text = facts::read_link(from);
      if (!text || symlink(text->c_str(), to.c_str()) != 0) refuse_errno("copying the link " + from, errno);
    } else if (mknod(to.c_str(), status.st_mode, status.st_rdev) != 0) {
      refuse_errno("copying " + from, errno);
    }
    copy_attributes(from, to, status);
    if (status.st_nlink > 1) linked_[{status.st_dev, status.st_ino}] = to;
    return false;
  }

  bool link_again(const struct stat& status, const std::string& to) {
    const auto known = linked_.find({status.st_dev, status.st_ino});
    if (known == linked_.end()) return false;
    if (link(known->second.c_str(), to.c_str()) != 0) refuse_errno("linking " + to, errno);
    return true;
  }

  bool copy_file(const std::string& from, const std::string& to, const struct stat& status) {
    const base::UniqueFd source(open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOATIME));
    if (!source) {
      if (errno == ENOENT) return false;
      refuse_errno("opening " + from, errno);
    }
    const base::UniqueFd target(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!target) refuse_errno("making " + to, errno);
    const std::int64_t bytes = static_cast<std::int64_t>(status.st_blocks) * 512;
    result_.bytes += bytes;
    if (ioctl(target.get(), FICLONE, source.get()) == 0) return true;
    const int error = errno;
    if (sharing_ == Sharing::require || (error != EOPNOTSUPP && error != EXDEV && error != EINVAL)) {
      if (error == EOPNOTSUPP || error == EINVAL) {
        refuse(Code::failed_precondition,
               "This file system cannot share blocks between files. Make it by mkfs.xfs -m "
               "reflink=1 (the default of xfsprogs since 5.1).");
      }
      refuse_errno("sharing the blocks of " + from, error);
    }
    copy_bytes(source.get(), target.get(), from);
    result_.copied += bytes;
    return true;
  }

  static void copy_bytes(int source, int target, const std::string& name) {
    for (;;) {
      const ssize_t copied = copy_file_range(source, nullptr, target, nullptr, std::size_t{64} << 20, 0);
      if (copied == 0) return;
      if (copied < 0) refuse_errno("copying " + name, errno);
    }
  }

  static void copy_attributes(const std::string& from, const std::string& to, const struct stat& status) {
    if (lchown(to.c_str(), status.st_uid, status.st_gid) != 0) refuse_errno("setting the owner of " + to, errno);
    copy_extended(from, to);
    if (!S_ISLNK(status.st_mode) && chmod(to.c_str(), status.st_mode & 07777U) != 0) {
      refuse_errno("setting the mode of " + to, errno);
    }
    const std::array<timespec, 2> times = {status.st_atim, status.st_mtim};
    if (utimensat(AT_FDCWD, to.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) != 0) refuse_errno("setting times", errno);
  }

  static void copy_extended(const std::string& from, const std::string& to) {
    std::vector<char> names(65536);
    const ssize_t length = llistxattr(from.c_str(), names.data(), names.size());
    for (ssize_t at = 0; at < length;) {
      const std::string name = names.data() + at;
      at += static_cast<ssize_t>(name.size()) + 1;
      std::vector<char> value(65536);
      const ssize_t size = lgetxattr(from.c_str(), name.c_str(), value.data(), value.size());
      if (size < 0) continue;  // removed since it was listed
      if (lsetxattr(to.c_str(), name.c_str(), value.data(), static_cast<std::size_t>(size), 0) != 0 &&
          errno != EOPNOTSUPP) {
        refuse_errno(fmt::format("setting the attribute {} of {}", name, to), errno);
      }
    }
  }

  Sharing sharing_;
  CopyResult result_;
  std::map<std::pair<dev_t, ino_t>, std::string> linked_;
};

}  // namespace

CopyResult copy_tree(const std::string& from, const std::string& to, Sharing sharing) {
  return Copier(sharing).copy(from, to);
}

}  // namespace sluice::csi
