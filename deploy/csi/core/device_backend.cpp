// SPDX-License-Identifier: Apache-2.0
#include "core/device_backend.h"

#include <sys/mount.h>

#include "core/refusal.h"

namespace sluice::csi {
namespace {

// What a volume was staged as: kept beside the attributes, for the calls that are not told.
constexpr const char* raw_key = "raw";

}  // namespace

bool DeviceBackend::is_raw(const Record& record) {
  const auto word = record.mutable_parameters.find(raw_key);
  return word != record.mutable_parameters.end() && word->second == "true";
}

void DeviceBackend::set_raw(Record& record, bool raw) {
  record.mutable_parameters[raw_key] = raw ? "true" : "false";
}

std::string DeviceBackend::file_system_of(const StageRequest& request, const ClassParameters& parsed) {
  if (!request.capability.fs_type.empty()) return request.capability.fs_type;
  return parsed.fs_type.empty() ? "xfs" : parsed.fs_type;
}

MountPlan DeviceBackend::plan_for(const StageRequest& request, const ClassParameters& parsed) {
  if (request.capability.type == AccessType::block) return {};
  return plan_mount(file_system_of(request, parsed), request.capability.mount_flags, FileSystemOf::volume);
}

BlockDevice DeviceBackend::need_device(const Record& record) const {
  if (std::optional<BlockDevice> device = device_of(record)) return *device;
  refuse(
      Code::failed_precondition,
      record.id + " has no device on this node: its drive, or every path to it, is lost. Staging it again looks anew.");
}

std::vector<facts::Mount> DeviceBackend::places(const std::string& id, const std::vector<facts::Mount>& mounts) {
  const std::optional<Record> record = records_.read(id);
  if (!record) return {};
  const std::optional<BlockDevice> device = device_of(*record);
  if (!device) return {};
  return places_of(*device, mounts);
}

void DeviceBackend::mount_staged(const StageRequest& request, const ClassParameters& parsed, const BlockDevice& device,
                                 const MountPlan& plan) {
  const std::string fs_type = file_system_of(request, parsed);
  if (const std::optional<facts::Mount> mount = mount_at(all_mounts(), request.path)) {
    if (mount->device == device.number && !is_stale(*mount)) return;
    // A drive that was lost comes back as another device, and the old mount is only a name.
    if (!is_stale(*mount)) {
      refuse(Code::failed_precondition, request.path + " already has a mount of " + mount->source + ". Unmount it.");
    }
    unmount_all(request.path);
  }
  want_file_system(device, fs_type, parsed.mkfs_options);
  reached("stage: formatted");
  mount_volume(device, request.path, fs_type, plan);
  reached("stage: mounted");
}

void DeviceBackend::unmount_staged(const Record& record, const std::string& path) {
  const std::optional<facts::Mount> mount = mount_at(all_mounts(), path);
  const std::optional<BlockDevice> device = device_of(record);
  if (mount && (is_stale(*mount) || (device && mount->device == device->number))) unmount_all(path);
  reached("unstage: unmounted");
  if (!device) return;
  const std::vector<facts::Mount> left = places_of(*device, all_mounts());
  if (!left.empty()) {
    refuse(Code::failed_precondition,
           record.id + " is still to be seen at " + left.front().point + ". Unpublish it first.");
  }
  if (is_held(*device)) {
    refuse(Code::failed_precondition,
           record.id +
               " is unmounted here and still in use elsewhere: another mount namespace, or a "
               "holder. It is not detached; the next call tries again.");
  }
}

bool DeviceBackend::is_staged(const std::string& id, const std::string& path) {
  const std::optional<Record> record = records_.read(id);
  if (!record) return false;
  const std::optional<BlockDevice> device = device_of(*record);
  if (!device) return false;
  if (is_raw(*record)) return true;
  const std::optional<facts::Mount> mount = mount_at(all_mounts(), path);
  return mount && mount->device == device->number && !is_stale(*mount);
}

void DeviceBackend::publish(const PublishRequest& request) {
  const Record record = need(request.id, RecordKind::volume);
  if (request.capability.type == AccessType::block) {
    // A node is bound onto a file. "Read-only" is the mount's, which says nothing about the device; so it is refused.
    if (request.read_only) {
      refuse(Code::invalid_argument,
             "A raw device is asked for read-only, which the kernel does not enforce. Use a file system.");
    }
    make_file(request.target, 0600);
    bind_mount(need_device(record).path, request.target, 0);
    return;
  }
  make_folder(request.target, 0750);
  reached("publish: made");
  bind_mount(request.staging, request.target, request.read_only ? MS_RDONLY : 0);
}

Usage DeviceBackend::usage(const std::string& id, const std::string& path) {
  return usage_of(need_device(need(id, RecordKind::volume)), path);
}

Condition DeviceBackend::condition_of(const BlockDevice& device, const std::vector<facts::Mount>& mounts) const {
  for (const facts::Mount& each : places_of(device, mounts)) {
    if (is_stale(each)) return stale_condition(each);
    if (each.options.find("shutdown") != std::string::npos) return {true, "the file system has shut down; see dmesg"};
  }
  return {false, "the volume is usable"};
}

std::string DeviceBackend::trial_file(const std::string& id) {
  return need_device(need(id, RecordKind::volume)).path;
}

}  // namespace sluice::csi
