// SPDX-License-Identifier: Apache-2.0
// The node's side of volumes that are directories: bind mounts.
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "core/directory_backend.h"
#include "core/mount_options.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {

std::vector<facts::Mount> DirectoryBackend::places(const std::string& id, const std::vector<facts::Mount>& mounts) {
  return mounts_showing(mounts, device_, root_ + "/volumes/" + id);
}

bool DirectoryBackend::is_staged(const std::string& id, const std::string& path) {
  const std::optional<facts::Mount> mount = mount_at(all_mounts(), path);
  return mount && mount->device == device_ && mount->root == root_ + "/volumes/" + id && !is_stale(*mount);
}

std::vector<std::string> DirectoryBackend::stage(const StageRequest& request) {
  const Record record = need(request.id, RecordKind::volume);
  const MountPlan plan = plan_mount("xfs", request.capability.mount_flags, FileSystemOf::pool);
  const std::string folder = folder_of(record);
  if (!facts::exists(folder)) {
    refuse(Code::failed_precondition,
           folder + " is missing, though its record is there. Has the pool been emptied by hand?");
  }
  if (is_staged(request.id, request.path)) return plan.notes;
  if (const std::optional<facts::Mount> other = mount_at(all_mounts(), request.path)) {
    if (!is_stale(*other)) {
      refuse(Code::failed_precondition,
             request.path + " already has a mount of " + other->source + other->root + ". Unmount it.");
    }
    unmount_all(request.path);
  }
  make_folder(request.path, 0750);
  reached("stage: made");
  bind_mount(folder, request.path, plan.flags);
  reached("stage: mounted");
  return plan.notes;
}

void DirectoryBackend::unstage(const std::string& id, const std::string& path) {
  for (const facts::Mount& each : places(id, all_mounts())) {
    if (each.point == path) unmount_all(path);
  }
}

void DirectoryBackend::publish(const PublishRequest& request) {
  make_folder(request.target, 0750);
  reached("publish: made");
  bind_mount(request.staging, request.target, request.read_only ? MS_RDONLY : 0);
  reached("publish: mounted");
}

Usage DirectoryBackend::usage(const std::string& id, const std::string& path) {
  const Record record = need(id, RecordKind::volume);
  struct statvfs status {};
  if (statvfs(path.c_str(), &status) != 0) refuse_errno("looking at " + path, errno);
  const auto block = static_cast<std::int64_t>(status.f_frsize);
  Usage usage;
  usage.total_inodes = static_cast<std::int64_t>(status.f_files);
  usage.free_inodes = static_cast<std::int64_t>(status.f_favail);
  usage.used_inodes = usage.total_inodes - static_cast<std::int64_t>(status.f_ffree);
  usage.total = record.bytes;
  // Below an enforced quota the file system tells the volume's numbers; else it tells its own.
  const std::int64_t free = static_cast<std::int64_t>(status.f_bavail) * block;
  usage.used = quota_->enforces() ? quota_->used(record.project)
                                  : std::min((static_cast<std::int64_t>(status.f_blocks) * block) - free, record.bytes);
  usage.available = std::min(std::max<std::int64_t>(0, usage.total - usage.used), free);
  return usage;
}

Condition DirectoryBackend::condition(const Record& record, const std::vector<facts::Mount>& mounts) {
  for (const facts::Mount& each : places(record.id, mounts)) {
    if (is_stale(each))
      return {true, "the drive below " + each.point + " is gone; drain the pod and replace the drive"};
  }
  if (!facts::exists(folder_of(record))) return {true, "the volume's directory is missing from its pool"};
  struct statvfs status {};
  if (statvfs(home_.c_str(), &status) != 0) return {true, "the pool's file system answers with an error; see dmesg"};
  if ((status.f_flag & ST_RDONLY) != 0) return {true, "the pool's file system has become read-only; see dmesg"};
  return {false, "the volume is usable"};
}

std::string DirectoryBackend::trial_file(const std::string& /*id*/) {
  return home_ + "/trial";
}

}  // namespace sluice::csi
