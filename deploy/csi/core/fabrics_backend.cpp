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

// A modification holds for every path, also for those that come back later.
FabricsParameters times_of(FabricsParameters wanted, const Record& record) {
  Map changed = record.mutable_parameters;
  changed.erase("raw");
  const MutableParameters parsed = parse_mutable(changed, Driver::fabrics);
  if (parsed.ctrl_loss_tmo) wanted.ctrl_loss_tmo = parsed.ctrl_loss_tmo;
  if (parsed.fast_io_fail_tmo) wanted.fast_io_fail_tmo = parsed.fast_io_fail_tmo;
  return wanted;
}

constexpr const char* made_by_targets =
    "Namespaces are made on the target, and named in a PersistentVolume (nqn, addresses, uuid). See the guide.";

}  // namespace

FabricsBackend::FabricsBackend(FabricsOptions options, std::unique_ptr<NvmePort> port)
    : DeviceBackend(options.state, options.at_step),
      options_(std::move(options)),
      port_(std::move(port)),
      fabrics_(options_.root, *port_) {
  make_folder(options_.state, 0700);
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

std::optional<BlockDevice> FabricsBackend::device_of(const Record& record) const {
  const std::optional<std::string> name = fabrics_.find(class_of(record).fabrics.uuid);
  if (!name) return std::nullopt;
  return block_device_at(options_.devices + "/" + *name);
}

std::string FabricsBackend::drive(const std::string& id) const {
  const std::optional<Record> record = records_.read(id);
  return record ? class_of(*record).fabrics.uuid : std::string();
}

std::vector<std::string> FabricsBackend::stage(const StageRequest& request) {
  Map attributes;
  for (const auto& [key, value] : request.volume_context) {
    if (!key.starts_with("csi.storage.k8s.io/") && !key.starts_with("storage.kubernetes.io/")) attributes[key] = value;
  }
  const ClassParameters parsed = parse_parameters(attributes, Driver::fabrics, options_.names);
  const bool raw = request.capability.type == AccessType::block;
  const MountPlan plan = plan_for(request, parsed);

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
  set_raw(record, raw);
  if (record.created == 0) record.created = std::time(nullptr);
  {
    const std::lock_guard lock(connecting_);
    records_.write(record);  // first: from now on the subsystem is in use
    reached("stage: recorded");
    for (const std::string& each : fabrics_.connect(times_of(parsed.fabrics, record)))
      log_event("Warning", "PathMissing", request.id, each);
  }
  reached("stage: connected");
  const std::string name = fabrics_.await(parsed.fabrics.uuid);
  fabrics_.set_times(times_of(parsed.fabrics, record));
  const std::optional<BlockDevice> device = block_device_at(options_.devices + "/" + name);
  if (!device)
    refuse(Code::failed_precondition,
           options_.devices + "/" + name + " is no device. Mount the host's /dev in this container.");
  record.bytes = bytes_of(*device);
  records_.write(record);
  if (!raw) mount_staged(request, parsed, *device, plan);
  return plan.notes;
}

// Whether another volume of the subsystem, or another driver, still uses one of its namespaces. Asked of the kernel,
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
  if (!record) return;
  unmount_staged(*record, path);
  release(*record);
}

void FabricsBackend::release(const Record& record) {
  const std::lock_guard lock(connecting_);
  if (!is_used(record)) fabrics_.disconnect(class_of(record).fabrics.nqn);
  reached("unstage: disconnected");
  records_.remove(record.id);
}

Record FabricsBackend::grow(const std::string& id, std::int64_t bytes, const std::string& path) {
  Record record = need(id, RecordKind::volume);
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
  Record record = need(id, RecordKind::volume);
  for (const auto& [key, value] : parameters) record.mutable_parameters[key] = value;
  fabrics_.set_times(times_of(class_of(record).fabrics, record));
  return DeviceBackend::modify(id, parameters);
}

Condition FabricsBackend::condition(const Record& record, const std::vector<facts::Mount>& mounts) {
  Condition paths = fabrics_.condition(class_of(record).fabrics.nqn);
  if (paths.abnormal) return paths;
  const std::optional<BlockDevice> device = device_of(record);
  if (!device) return {true, "the namespace is gone from the subsystem"};
  Condition device_condition = condition_of(*device, mounts);
  if (device_condition.abnormal) return device_condition;
  return paths;
}

}  // namespace sluice::csi
