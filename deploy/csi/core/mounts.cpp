// SPDX-License-Identifier: Apache-2.0
#include "core/mounts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/unique_fd.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

mount_attr attributes_for(unsigned long flags) {
  mount_attr attributes{};
  if ((flags & MS_RDONLY) != 0) attributes.attr_set |= MOUNT_ATTR_RDONLY;
  if ((flags & MS_NODEV) != 0) attributes.attr_set |= MOUNT_ATTR_NODEV;
  if ((flags & MS_NOSUID) != 0) attributes.attr_set |= MOUNT_ATTR_NOSUID;
  if ((flags & MS_NOEXEC) != 0) attributes.attr_set |= MOUNT_ATTR_NOEXEC;
  if ((flags & MS_NODIRATIME) != 0) attributes.attr_set |= MOUNT_ATTR_NODIRATIME;
  if ((flags & (MS_NOATIME | MS_STRICTATIME)) != 0) {
    attributes.attr_clr |= MOUNT_ATTR__ATIME;
    attributes.attr_set |= (flags & MS_NOATIME) != 0 ? MOUNT_ATTR_NOATIME : MOUNT_ATTR_STRICTATIME;
  }
  return attributes;
}

}  // namespace

std::vector<facts::Mount> parse_mounts(std::string_view mountinfo) {
  std::vector<facts::Mount> mounts;
  while (!mountinfo.empty()) {
    const std::size_t end = mountinfo.find('\n');
    if (std::optional<facts::Mount> mount = facts::parse_mount(mountinfo.substr(0, end))) {
      mounts.push_back(std::move(*mount));
    }
    mountinfo = end == std::string_view::npos ? std::string_view() : mountinfo.substr(end + 1);
  }
  return mounts;
}

std::vector<facts::Mount> all_mounts() {
  const std::optional<std::string> text = facts::read_text("/proc/self/mountinfo");
  if (!text) refuse(Code::internal, "/proc/self/mountinfo cannot be read. Mount /proc in this container.");
  return parse_mounts(*text);
}

std::optional<facts::Mount> mount_at(const std::vector<facts::Mount>& mounts, const std::string& path) {
  const auto found = std::find_if(mounts.rbegin(), mounts.rend(), [&](const auto& each) { return each.point == path; });
  if (found == mounts.rend()) return std::nullopt;
  return *found;
}

std::optional<facts::Mount> mount_of(const std::vector<facts::Mount>& mounts, const std::string& path) {
  const facts::Mount* best = nullptr;
  for (const facts::Mount& each : mounts) {
    const bool inside =
        each.point == "/" || path == each.point ||
        (path.starts_with(each.point) && path.size() > each.point.size() && path[each.point.size()] == '/');
    if (inside && (best == nullptr || each.point.size() >= best->point.size())) best = &each;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::string path_in_file_system(const facts::Mount& mount, const std::string& path) {
  std::string rest = mount.point == "/" ? path : path.substr(mount.point.size());
  return mount.root == "/" ? (rest.empty() ? "/" : rest) : mount.root + rest;
}

std::vector<facts::Mount> mounts_showing(const std::vector<facts::Mount>& mounts, dev_t device,
                                         const std::string& root) {
  std::vector<facts::Mount> showing;
  std::copy_if(mounts.begin(), mounts.end(), std::back_inserter(showing),
               [&](const auto& each) { return each.device == device && each.root == root; });
  return showing;
}

void mount_device(const std::string& device, const std::string& path, const std::string& fs_type, unsigned long flags,
                  const std::string& data) {
  if (mount(device.c_str(), path.c_str(), fs_type.c_str(), flags, data.c_str()) != 0) {
    const int error = errno;
    if (error != EINVAL) refuse_errno("mounting " + device + " as " + fs_type, error);
    refuse(Code::failed_precondition, "The kernel refuses to mount " + device + " as " + fs_type +
                                          " with the options \"" + data + "\". Its log says why: dmesg | tail.");
  }
}

void bind_mount(const std::string& source, const std::string& path, unsigned long flags) {
  const base::UniqueFd tree(
      open_tree(AT_FDCWD, source.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW));
  if (!tree) refuse_errno("binding " + source, errno);
  mount_attr changed = attributes_for(flags);
  if (mount_setattr(tree.get(), "", AT_EMPTY_PATH, &changed, sizeof changed) != 0) {
    refuse_errno("setting the options of the mount at " + path, errno);
  }
  if (move_mount(tree.get(), "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    refuse_errno("mounting " + source + " at " + path, errno);
  }
}

void unmount_all(const std::string& path) {
  constexpr int most_stacked = 16;
  for (int i = 0; i < most_stacked; ++i) {
    if (umount2(path.c_str(), UMOUNT_NOFOLLOW) == 0) continue;
    const int error = errno;
    if (error == EINVAL || error == ENOENT) return;
    if (error == EBUSY) {
      refuse(Code::failed_precondition,
             fmt::format("{} is in use and cannot be unmounted. End what uses it (fuser -vm {}); "
                         "the next call tries again.",
                         path, path));
    }
    refuse_errno("unmounting " + path, error);
  }
}

bool is_read_only(const facts::Mount& mount) {
  return mount.options == "ro" || mount.options.starts_with("ro,");
}

void make_folder(const std::string& path, mode_t mode) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  // The mode is meant as it is said: the process's umask is for its sockets.
  if (mkdir(path.c_str(), mode) == 0 && chmod(path.c_str(), mode) == 0) return;
  const int why = errno;
  struct stat status {};
  if (why == EEXIST && lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return;
  refuse_errno("making the folder " + path, why);
}

void make_file(const std::string& path, mode_t mode) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) refuse_errno("making the file " + path, errno);
  close(fd);
}

void remove_target(const std::string& path) {
  if (rmdir(path.c_str()) == 0) return;
  const int why = errno;
  if (why == ENOENT) return;
  if (why == ENOTDIR && (unlink(path.c_str()) == 0 || errno == ENOENT)) return;
  refuse_errno("removing " + path, why);
}

}  // namespace sluice::csi
