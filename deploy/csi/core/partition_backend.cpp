// SPDX-License-Identifier: Apache-2.0
#include "core/partition_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "core/bytes.h"
#include "core/refusal.h"

namespace sluice::csi {
namespace {

constexpr SizeRule partition_sizes = {mebibyte, mebibyte, gibibyte};
constexpr const char* no_snapshots =
    "Partitions share no blocks, so that there are no snapshots and clones of them. Use backend directory.";

// Records of one drive, wherever it is put in.
std::string folder_for(const PartitionOptions& options) {
  const PartitionDisk disk(options.drive);
  std::string folder = options.state + "/" + disk.id();
  make_folder(folder, 0700);
  return folder;
}

}  // namespace

PartitionBackend::PartitionBackend(PartitionOptions options)
    : DeviceBackend(folder_for(options), options.at_step), options_(std::move(options)), disk_(options_.drive) {
  adopt();
}

// A drive that comes from another node brings its table along and not its records: what is in the table is finished. A
// partition of which a record says "making" or "removing" waits for the call that goes on.
void PartitionBackend::adopt() {
  for (const GptEntry& each : disk_.table().entries) {
    if (records_.read(each.name) || !is_safe_id(each.name)) continue;
    Record record;
    record.state = RecordState::ready;
    record.id = each.name;
    record.name = each.name;
    record.bytes = disk_.table().extent_of(each).bytes();
    record.created = std::time(nullptr);
    record.backend = name_of(kind());
    record.parameters = {{"backend", name_of(kind())}};
    records_.write(record);
  }
}

std::optional<GptEntry> PartitionBackend::entry_of(const std::string& id) const {
  const std::lock_guard lock(table_);
  const GptEntry* const entry = disk_.table().find(id);
  if (entry == nullptr) return std::nullopt;
  return *entry;
}

std::optional<Extent> PartitionBackend::extent_of(const std::string& id) const {
  const std::lock_guard lock(table_);
  const GptEntry* const entry = disk_.table().find(id);
  if (entry == nullptr) return std::nullopt;
  return disk_.table().extent_of(*entry);
}

std::optional<BlockDevice> PartitionBackend::device_of(const Record& record) const {
  const std::optional<GptEntry> entry = entry_of(record.id);
  if (!entry) return std::nullopt;
  return disk_.node_of(*entry);
}

std::int64_t PartitionBackend::available() {
  const std::lock_guard lock(table_);
  std::int64_t sum = 0;
  for (const Extent& each : disk_.table().free_extents()) sum += each.bytes();
  return sum;
}

std::int64_t PartitionBackend::largest() {
  const std::lock_guard lock(table_);
  if (!disk_.table().free_number()) return 0;
  std::int64_t most = 0;
  for (const Extent& each : disk_.table().free_extents()) most = std::max(most, each.bytes());
  return most;
}

std::int64_t PartitionBackend::smallest() const {
  return partition_sizes.least;
}

Record PartitionBackend::create(const VolumeRequest& request) {
  if (request.source.kind != ContentKind::empty) refuse(Code::invalid_argument, no_snapshots);
  const std::string id = disk_.id() + "-" + digest_of(request.name);
  // One of this name that was on its way out goes first: bytes of then are not shown to a volume of now.
  if (const auto old = records_.read(id); old && old->state == RecordState::removing) remove(id);
  const std::lock_guard lock(mutex_);
  std::optional<Record> record = records_.read(id);
  if (record && record->state == RecordState::ready) return *record;
  if (!record) record.emplace();
  record->id = id;
  record->name = request.name;
  record->created = std::time(nullptr);
  record->backend = name_of(kind());
  record->parameters = request.parameters;
  record->mutable_parameters = request.mutable_parameters;
  record->bytes = size_for(request.range, partition_sizes);
  return carve(std::move(*record));
}

// The smallest room that it fits into. What lies there of earlier days is not the volume's: signatures of file systems,
// which stand at both ends, go.
Record PartitionBackend::carve(Record record) {
  const std::lock_guard lock(table_);
  if (const GptEntry* const entry = disk_.table().find(record.id)) {
    const Extent extent = disk_.table().extent_of(*entry);
    if (extent.bytes() != record.bytes) disk_.remove(record.id);
  }
  if (disk_.table().find(record.id) == nullptr) {
    std::optional<Extent> best;
    for (const Extent& each : disk_.table().free_extents()) {
      if (each.bytes() >= record.bytes && (!best || each.bytes() < best->bytes())) best = each;
    }
    if (!best) {
      refuse(Code::resource_exhausted,
             fmt::format("{} has no {} bytes in one piece. Remove volumes, or use another node.", options_.drive,
                         record.bytes));
    }
    records_.write(record);
    reached("create: recorded");
    best->end = best->begin + record.bytes;
    const std::int64_t ends = std::min<std::int64_t>(best->bytes(), 2 * mebibyte);
    disk_.write_zeroes({best->begin, best->begin + ends});
    disk_.write_zeroes({best->end - ends, best->end});
    reached("create: cleared");
    disk_.add(record.id, *best);
  }
  reached("create: cut");
  record.state = RecordState::ready;
  records_.write(record);
  reached("create: ready");
  return record;
}

void PartitionBackend::remove(const std::string& id) {
  std::optional<Record> record = records_.read(id);
  if (!record || record->kind != RecordKind::volume) return;
  if (const std::optional<BlockDevice> device = device_of(*record)) {
    const std::vector<facts::Mount> used = places_of(*device, all_mounts());
    if (!used.empty()) {
      refuse(Code::failed_precondition,
             id + " is mounted at " + used.front().point + ". Unpublish and unstage it first.");
    }
    if (is_held(*device)) refuse(Code::failed_precondition, id + " is in use. End what uses " + device->path + ".");
  }
  record->state = RecordState::removing;
  records_.write(*record);
  reached("remove: recorded");
  if (const std::optional<Extent> extent = extent_of(id)) wipe(*record, *extent);
  reached("remove: wiped");
  const std::lock_guard lock(mutex_);
  const std::lock_guard table(table_);
  disk_.remove(id);
  reached("remove: cut");
  records_.remove(id);
}

void PartitionBackend::wipe(Record& record, const Extent& extent) {
  constexpr std::int64_t piece = 256 * mebibyte;
  const auto end = std::chrono::steady_clock::now() + options_.wipe_limit;
  for (std::int64_t at = extent.begin + record.wiped; at < extent.end;) {
    const std::int64_t next = std::min(at + piece, extent.end);
    disk_.write_zeroes({at, next});
    at = next;
    record.wiped = at - extent.begin;
    if (at == extent.end || std::chrono::steady_clock::now() < end) continue;
    records_.write(record);
    refuse(Code::aborted, fmt::format("{} of {} bytes of {} are zeroes by now. Call again; the next call goes on.",
                                      record.wiped, extent.bytes(), record.id));
  }
}

Record PartitionBackend::grow(const std::string& id, std::int64_t bytes, const std::string& path) {
  const std::lock_guard lock(mutex_);
  Record record = need(id, RecordKind::volume);
  const std::int64_t wanted = size_for({bytes, 0}, partition_sizes);
  {
    const std::lock_guard table(table_);
    const GptEntry* const entry = disk_.table().find(id);
    if (entry == nullptr) refuse(Code::internal, id + " is missing from the table of " + options_.drive + ".");
    const Extent extent = disk_.table().extent_of(*entry);
    std::int64_t most = extent.bytes();
    for (const Extent& each : disk_.table().free_extents()) {
      if (each.begin == extent.end) most += each.bytes();
    }
    if (wanted > most) {
      refuse(Code::resource_exhausted,
             fmt::format(
                 "{} can have {} bytes where it lies on {}, and {} are wanted. Remove the volume behind it, or copy "
                 "it to a new one.",
                 id, most, options_.drive, wanted));
    }
    if (wanted > extent.bytes()) {
      // What lay there belongs to no volume.
      disk_.write_zeroes({extent.end, extent.begin + wanted});
      disk_.grow(id, wanted);
    }
  }
  reached("grow: cut");
  if (!is_raw(record)) {
    if (const std::optional<facts::Mount> mount = mount_at(all_mounts(), path)) grow_file_system(*mount);
  }
  reached("grow: grown");
  record.bytes = std::max(record.bytes, wanted);
  records_.write(record);
  return record;
}

Record PartitionBackend::snapshot(const std::string& /*name*/, const std::string& /*volume*/) {
  refuse(Code::invalid_argument, no_snapshots);
}
void PartitionBackend::remove_snapshot(const std::string& /*id*/) {}

std::vector<std::string> PartitionBackend::stage(const StageRequest& request) {
  Record record = need(request.id, RecordKind::volume);
  const ClassParameters parsed = parse_parameters(record.parameters, Driver::local, options_.names);
  const MountPlan plan = plan_for(request, parsed);
  const BlockDevice device = need_device(record);
  const bool raw = request.capability.type == AccessType::block;
  if (raw != is_raw(record) && !places_of(device, all_mounts()).empty()) {
    refuse(Code::already_exists,
           request.id + " is in use the other way, raw or with a file system. Unpublish it first.");
  }
  {
    const std::lock_guard lock(mutex_);
    set_raw(record, raw);
    records_.write(record);
  }
  if (!raw) mount_staged(request, parsed, device, plan);
  return plan.notes;
}

void PartitionBackend::unstage(const std::string& id, const std::string& path) {
  if (const std::optional<Record> record = records_.read(id)) unmount_staged(*record, path);
}

Condition PartitionBackend::condition(const Record& record, const std::vector<facts::Mount>& mounts) {
  const std::optional<BlockDevice> device = device_of(record);
  if (!device) return {true, "the drive is gone; drain the pod and replace the drive"};
  return condition_of(*device, mounts);
}

}  // namespace sluice::csi
