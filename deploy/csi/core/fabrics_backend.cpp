// SPDX-License-Identifier: Apache-2.0
#include "core/fabrics_backend.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include "core/log.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

constexpr const char* made_by_targets =
    "Namespaces are made on the target, and named in a PersistentVolume (nqn, addresses, uuid). See the guide.";

// What a volume was staged as: kept beside the attributes, for the calls that are not told.
constexpr const char* raw_key = "raw";

bool is_raw(const Record& record) {
  const auto word = record.mutable_parameters.find(raw_key);
  return word != record.mutable_parameters.end() && word->second == "true";
}

std::string file_system_of(const StageRequest& request, const ClassParameters& parsed) {
  if (!request.capability.fs_type.empty()) return request.capability.fs_type;
  return parsed.fs_type.empty() ? "xfs" : parsed.fs_type;
}

}  // namespace

FabricsBackend::FabricsBackend(FabricsOptions options, std::unique_ptr<NvmePort> port)
    : options_(std::move(options)), port_(std::move(port)), fabrics_(options_.root, *port_), records_(options_.state) {
  make_folder(options_.state, 0700);
}

void FabricsBackend::reached(const char* step) const {
  if (options_.at_step) options_.at_step(step);
}

Record FabricsBackend::create(const VolumeRequest& /*request*/) {
  refuse(Code::unsupported, made_by_targets);
}
void FabricsBackend::remove(const std::string& /*id*/) {
  refuse(Code::unsupported, made_by_targets);
}
Record FabricsBackend::snapshot(const std::string& /*name*/, const std::string& /*volume*/) {
  refuse(Code::unsupported, made_by_targets);
}
void FabricsBackend::remove_snapshot(const std::string& /*id*/) {
  refuse(Code::unsupported, made_by_targets);
}

ClassParameters FabricsBackend::class_of(const Record& record) const {
  return parse_parameters(record.parameters, Driver::fabrics, options_.names);
}

Record FabricsBackend::need(const std::string& id) const {
  const std::optional<Record> record = records_.read(id);
  if (!record) refuse(Code::not_found, id + " is not staged on this node. Stage it first.");
  return *record;
}

std::optional<BlockDevice> FabricsBackend::device_of(const Record& record) const {
  const std::optional<std::string> name = fabrics_.find(class_of(record).fabrics.uuid);
  if (!name) return std::nullopt;
  return block_device_at(options_.devices + "/" + *name);
}

BlockDevice FabricsBackend::need_device(const Record& record) const {
  if (const std::optional<BlockDevice> device = device_of(record)) return *device;
  refuse(Code::failed_precondition,
         record.id + " has no device on this node: its paths are lost. Staging it again connects anew.");
}

std::string FabricsBackend::drive(const std::string& id) const {
  const std::optional<Record> record = records_.read(id);
  return record ? class_of(*record).fabrics.uuid : std::string();
}

std::vector<facts::Mount> FabricsBackend::places(const std::string& id, const std::vector<facts::Mount>& mounts) {
  const std::optional<Record> record = records_.read(id);
  if (!record) return {};
  const std::optional<BlockDevice> device = device_of(*record);
  if (!device) return {};
  return places_of(*device, mounts);
}

std::vector<std::string> FabricsBackend::stage(const StageRequest& request) {
  Map attributes;
  for (const auto& [key, value] : request.volume_context) {
    if (!key.starts_with("csi.storage.k8s.io/") && !key.starts_with("storage.kubernetes.io/")) attributes[key] = value;
  }
  const ClassParameters parsed = parse_parameters(attributes, Driver::fabrics, options_.names);
  const std::string fs_type = file_system_of(request, parsed);
  const bool raw = request.capability.type == AccessType::block;
  const MountPlan plan = raw ? MountPlan() : plan_mount(fs_type, request.capability.mount_flags, FileSystemOf::volume);

  Fabrics::check(parsed.fabrics);
  Record record = records_.read(request.id).value_or(Record());
  if (!record.id.empty() && record.parameters != attributes) {
    if (!places(request.id, all_mounts()).empty()) {
      refuse(Code::already_exists, request.id + " is staged with other attributes. Unstage it first.");
    }
    release(record);  // what an attempt with other attributes has left
    record = Record();
  }
  if (!is_safe_id(request.id))
    refuse(Code::invalid_argument, "volume_id has other letters than a-z, A-Z, 0-9, '.', '-', '_'. Rename it.");
  record.id = request.id;
  record.name = request.id;
  record.state = RecordState::ready;
  record.backend = name_of(kind());
  record.parameters = attributes;
  record.mutable_parameters[raw_key] = raw ? "true" : "false";
  if (record.created == 0) record.created = std::time(nullptr);
  {
    const std::lock_guard lock(mutex_);
    records_.write(record);  // first: from now on the subsystem is in use
    reached("stage: recorded");
    for (const std::string& each : fabrics_.connect(parsed.fabrics))
      log_event("Warning", "PathMissing", request.id, each);
  }
  reached("stage: connected");
  const std::string name = fabrics_.await(parsed.fabrics.uuid);
  fabrics_.set_times(parsed.fabrics);
  const std::optional<BlockDevice> device = block_device_at(options_.devices + "/" + name);
  if (!device)
    refuse(Code::failed_precondition,
           options_.devices + "/" + name + " is no device. Mount the host's /dev in this container.");
  record.bytes = bytes_of(*device);
  records_.write(record);
  if (!raw) mount_staged(request, record, *device, plan);
  return plan.notes;
}

void FabricsBackend::mount_staged(const StageRequest& request, const Record& record, const BlockDevice& device,
                                  const MountPlan& plan) {
  const ClassParameters parsed = class_of(record);
  const std::string fs_type = file_system_of(request, parsed);
  if (const std::optional<facts::Mount> mount = mount_at(all_mounts(), request.path)) {
    if (mount->device == device.number && !is_stale(*mount)) return;
    // After a lost controller the drive comes back as another device, and the old mount is only a name.
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

// Whether another volume of the subsystem, or anybody else, still uses one of its namespaces. Asked of the kernel,
// because others connect, too.
bool FabricsBackend::is_used(const Record& released) const {
  const std::string nqn = class_of(released).fabrics.nqn;
  for (const Record& each : records_.all()) {
    if (each.id != released.id && class_of(each).fabrics.nqn == nqn) return true;
  }
  const std::vector<facts::Mount> mounts = all_mounts();
  for (const std::string& name : fabrics_.namespaces(nqn)) {
    const std::optional<BlockDevice> device = block_device_at(options_.devices + "/" + name);
    if (!device) continue;
    const std::string holders = options_.root.at("/sys/block/" + name + "/holders");
    if (!places_of(*device, mounts).empty() || !facts::list_names(holders).empty() || is_held(*device)) return true;
  }
  return false;
}

void FabricsBackend::unstage(const std::string& id, const std::string& path) {
  const std::optional<Record> record = records_.read(id);
  const std::vector<facts::Mount> mounts = all_mounts();
  const std::optional<facts::Mount> mount = mount_at(mounts, path);
  if (!record) return;
  const std::optional<BlockDevice> device = device_of(*record);
  if (mount && (is_stale(*mount) || (device && mount->device == device->number))) unmount_all(path);
  reached("unstage: unmounted");
  if (device) {
    const std::vector<facts::Mount> left = places_of(*device, all_mounts());
    if (!left.empty()) {
      refuse(Code::failed_precondition, id + " is still to be seen at " + left.front().point + ". Unpublish it first.");
    }
    if (is_held(*device)) {
      refuse(Code::failed_precondition,
             id + " is unmounted here and still in use elsewhere: another mount namespace, or a "
                  "holder. It is not detached; the next call tries again.");
    }
  }
  release(*record);
}

void FabricsBackend::release(const Record& record) {
  const std::lock_guard lock(mutex_);
  if (!is_used(record)) fabrics_.disconnect(class_of(record).fabrics.nqn);
  reached("unstage: disconnected");
  records_.remove(record.id);
}

bool FabricsBackend::is_staged(const std::string& id, const std::string& path) {
  const std::optional<Record> record = records_.read(id);
  if (!record) return false;
  const std::optional<BlockDevice> device = device_of(*record);
  if (!device) return false;
  if (is_raw(*record)) return true;
  const std::optional<facts::Mount> mount = mount_at(all_mounts(), path);
  return mount && mount->device == device->number && !is_stale(*mount);
}

void FabricsBackend::publish(const PublishRequest& request) {
  const Record record = need(request.id);
  const unsigned long flags = request.read_only ? MS_RDONLY : 0;
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
  bind_mount(request.staging, request.target, flags);
}

Record FabricsBackend::grow(const std::string& id, std::int64_t bytes, const std::string& path) {
  Record record = need(id);
  fabrics_.rescan(class_of(record).fabrics.nqn);
  const BlockDevice device = need_device(record);
  const std::int64_t have = bytes_of(device);
  if (have < bytes) {
    refuse(Code::out_of_range,
           fmt::format("The namespace has {} bytes, and {} are wanted. Grow it on the target first.", have, bytes));
  }
  if (!is_raw(record)) {
    if (const std::optional<facts::Mount> mount = mount_at(all_mounts(), path)) grow_file_system(*mount);
  }
  record.bytes = have;
  records_.write(record);
  return record;
}

Record FabricsBackend::modify(const std::string& id, const Map& parameters) {
  Record record = need(id);
  const MutableParameters wanted = parse_mutable(parameters, Driver::fabrics);
  FabricsParameters fabrics = class_of(record).fabrics;
  fabrics.ctrl_loss_tmo = wanted.ctrl_loss_tmo;
  fabrics.fast_io_fail_tmo = wanted.fast_io_fail_tmo;
  fabrics_.set_times(fabrics);
  for (const auto& [key, value] : parameters) record.mutable_parameters[key] = value;
  records_.write(record);
  return record;
}

void FabricsBackend::keep_notes(const std::string& id, const std::string& direct_path,
                                const std::vector<std::string>& notes) {
  Record record = need(id);
  record.direct_path = direct_path;
  record.notes = notes;
  records_.write(record);
}

Usage FabricsBackend::usage(const std::string& id, const std::string& path) {
  return usage_of(need_device(need(id)), path);
}

Condition FabricsBackend::condition(const Record& record, const std::vector<facts::Mount>& mounts) {
  Condition paths = fabrics_.condition(class_of(record).fabrics.nqn);
  if (paths.abnormal) return paths;
  const std::optional<BlockDevice> device = device_of(record);
  if (!device) return {true, "the namespace is gone from the subsystem"};
  for (const facts::Mount& each : places_of(*device, mounts)) {
    if (is_stale(each))
      return {true, "the device below " + each.point + " is gone; end the pod, so that it is staged again"};
    if (each.options.find("shutdown") != std::string::npos) return {true, "the file system has shut down; see dmesg"};
  }
  return paths;
}

std::string FabricsBackend::trial_file(const std::string& id) {
  return need_device(need(id)).path;
}

}  // namespace sluice::csi
