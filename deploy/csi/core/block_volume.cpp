// SPDX-License-Identifier: Apache-2.0
#include "core/block_volume.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>

#include "base/unique_fd.h"
#include "core/log.h"
#include "core/process.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

// Below kubelet's two minutes, so that the answer still reaches it; the next call goes on.
constexpr std::chrono::seconds longest(100);

constexpr int blkid_found_nothing = 2;
constexpr int blkid_found_several = 8;

}  // namespace

std::optional<BlockDevice> block_device_at(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISBLK(status.st_mode)) return std::nullopt;
  return BlockDevice{path, std::string(facts::last_component(path)), status.st_rdev};
}

std::string content_of(const BlockDevice& device) {
  const ProgramResult run =
      run_program({"blkid", "-p", "-o", "value", "-s", "TYPE", "-s", "PTTYPE", device.path}, longest);
  if (run.status == blkid_found_nothing) return {};
  if (run.status == 0) return std::string(facts::trimmed(run.output));
  refuse(run.status == blkid_found_several ? Code::failed_precondition : Code::internal,
         fmt::format("blkid -p {} ends with {}{}. Look at what lies on the device; it is not touched.", device.path,
                     run.status,
                     run.status == blkid_found_several ? ": there are signs of several file systems"
                                                       : ": " + last_line(run.output)));
}

void want_file_system(const BlockDevice& device, const std::string& fs_type,
                      const std::vector<std::string>& mkfs_options) {
  const std::string content = content_of(device);
  if (content == fs_type) return;
  if (!content.empty()) {
    refuse(Code::failed_precondition,
           fmt::format("{} holds {}, and {} is wanted. It is not formatted over: wipe it first if "
                       "that can go.",
                       device.path, content, fs_type));
  }
  // No discard: on a large drive it takes longer than kubelet waits.
  std::vector<std::string> words = fs_type == "xfs" ? std::vector<std::string>{"mkfs.xfs", "-K", "-q"}
                                                    : std::vector<std::string>{"mkfs.ext4", "-q", "-E", "nodiscard"};
  words.insert(words.end(), mkfs_options.begin(), mkfs_options.end());
  words.push_back(device.path);
  const ProgramResult run = run_program(words, longest);
  if (run.status == 0) return;
  refuse(Code::internal, fmt::format("{} {} ends with {}: {}. See mkfsOptions in the StorageClass.", words.front(),
                                     device.path, run.status, last_line(run.output)));
}

void mount_volume(const BlockDevice& device, const std::string& path, const std::string& fs_type,
                  const MountPlan& plan) {
  make_folder(path, 0750);
  mount_device(device.path, path, fs_type, plan.flags, plan.data);
  const std::optional<facts::Mount> mount = mount_at(all_mounts(), path);
  if (!mount) refuse(Code::internal, path + " is not mounted, though the kernel said so. Call again.");
  for (const std::string& each : not_in_effect(plan, mount->options)) {
    log_event("Warning", "MountOptionWithoutEffect", device.name,
              "Mount option " + each + " has no effect: the device is mounted elsewhere, with other options.");
  }
}

void grow_file_system(const facts::Mount& mount) {
  const std::vector<std::string> words = mount.type == "xfs" ? std::vector<std::string>{"xfs_growfs", mount.point}
                                                             : std::vector<std::string>{"resize2fs", mount.source};
  const ProgramResult run = run_program(words, longest);
  if (run.status == 0) return;
  // resize2fs tells the cause before its last line.
  std::string said(facts::trimmed(run.output));
  std::replace(said.begin(), said.end(), '\n', ' ');
  refuse(Code::internal, fmt::format("{} ends with {}: {}", words.front(), run.status, said));
}

std::int64_t bytes_of(const BlockDevice& device) {
  const base::UniqueFd opened(open(device.path.c_str(), O_RDONLY | O_CLOEXEC));
  std::uint64_t bytes = 0;
  if (!opened || ioctl(opened.get(), BLKGETSIZE64, &bytes) != 0)
    refuse_errno("asking for the size of " + device.path, errno);
  return static_cast<std::int64_t>(bytes);
}

bool is_held(const BlockDevice& device) {
  const base::UniqueFd opened(open(device.path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  return !opened && errno == EBUSY;
}

std::vector<facts::Mount> places_of(const BlockDevice& device, const std::vector<facts::Mount>& mounts) {
  std::vector<facts::Mount> places;
  std::copy_if(mounts.begin(), mounts.end(), std::back_inserter(places), [&](const facts::Mount& each) {
    if (each.device == device.number) return true;
    if (facts::last_component(each.root) != device.name) return false;
    struct stat status {};
    return stat(each.point.c_str(), &status) == 0 && S_ISBLK(status.st_mode) && status.st_rdev == device.number;
  });
  return places;
}

Usage usage_of(const BlockDevice& device, const std::string& path) {
  Usage usage;
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && S_ISBLK(status.st_mode)) {
    usage.total = bytes_of(device);
    return usage;
  }
  struct statvfs system {};
  if (statvfs(path.c_str(), &system) != 0) refuse_errno("looking at " + path, errno);
  const auto block = static_cast<std::int64_t>(system.f_frsize);
  usage.total = static_cast<std::int64_t>(system.f_blocks) * block;
  usage.available = static_cast<std::int64_t>(system.f_bavail) * block;
  usage.used = usage.total - static_cast<std::int64_t>(system.f_bfree) * block;
  usage.total_inodes = static_cast<std::int64_t>(system.f_files);
  usage.free_inodes = static_cast<std::int64_t>(system.f_favail);
  usage.used_inodes = usage.total_inodes - static_cast<std::int64_t>(system.f_ffree);
  return usage;
}

}  // namespace sluice::csi
