// SPDX-License-Identifier: Apache-2.0
#include "server/convert.h"

#include <condition_variable>
#include <mutex>

#include "core/log.h"

namespace sluice::csi {
namespace {

struct Calls {
  std::mutex mutex;
  std::condition_variable none_left;
  int under_way = 0;
};

Calls& calls() {
  static Calls all;
  return all;
}

}  // namespace

CallCounts& call_counts() {
  static CallCounts all;
  return all;
}

CallScope::CallScope() {
  const std::lock_guard lock(calls().mutex);
  ++calls().under_way;
}

CallScope::~CallScope() {
  const std::lock_guard lock(calls().mutex);
  if (--calls().under_way == 0) calls().none_left.notify_all();
}

void wait_for_calls(std::chrono::seconds at_most) {
  std::unique_lock lock(calls().mutex);
  calls().none_left.wait_for(lock, at_most, [] { return calls().under_way == 0; });
}

Map from_wire(const google::protobuf::Map<std::string, std::string>& map) {
  std::size_t bytes = 0;
  Map copy;
  for (const auto& [key, value] : map) {
    bytes += key.size() + value.size();
    copy[key] = value;
  }
  if (bytes > 4096) refuse(Code::invalid_argument, "A map has more than 4096 bytes. Shorten it.");
  return copy;
}

void to_wire(const Map& map, google::protobuf::Map<std::string, std::string>* to) {
  for (const auto& [key, value] : map) (*to)[key] = value;
}

Capability from_wire(const wire::VolumeCapability& capability) {
  Capability converted;
  converted.mode = static_cast<AccessMode>(capability.access_mode().mode());
  if (capability.has_block()) converted.type = AccessType::block;
  if (capability.has_mount()) {
    converted.type = AccessType::mount;
    converted.fs_type = capability.mount().fs_type();
    for (const std::string& flag : capability.mount().mount_flags()) converted.mount_flags.push_back(flag);
  }
  return converted;
}

Range from_wire(const wire::CapacityRange& range) {
  return {range.required_bytes(), range.limit_bytes()};
}

Content from_wire(const wire::VolumeContentSource& source) {
  Content content;
  if (source.has_snapshot()) content = {ContentKind::snapshot, source.snapshot().snapshot_id()};
  if (source.has_volume()) content = {ContentKind::volume, source.volume().volume_id()};
  if (content.kind == ContentKind::empty || content.id.empty()) {
    refuse(Code::invalid_argument, "volume_content_source names neither a snapshot nor a volume. Name one.");
  }
  return content;
}

void to_wire(const VolumeAnswer& answer, wire::Volume* to) {
  to->set_volume_id(answer.record.id);
  to->set_capacity_bytes(answer.record.bytes);
  to_wire(answer.context, to->mutable_volume_context());
  const Content& source = answer.record.source;
  if (source.kind == ContentKind::snapshot) {
    to->mutable_content_source()->mutable_snapshot()->set_snapshot_id(source.id);
  } else if (source.kind == ContentKind::volume) {
    to->mutable_content_source()->mutable_volume()->set_volume_id(source.id);
  }
  if (!answer.topology.empty()) to_wire(answer.topology, to->add_accessible_topology()->mutable_segments());
}

void to_wire(const Record& snapshot, wire::Snapshot* to) {
  to->set_snapshot_id(snapshot.id);
  to->set_source_volume_id(snapshot.source.id);
  to->set_size_bytes(snapshot.bytes);
  to->mutable_creation_time()->set_seconds(snapshot.created);
  to->set_ready_to_use(true);
}

void to_wire(const Condition& condition, wire::VolumeCondition* to) {
  to->set_abnormal(condition.abnormal);
  to->set_message(condition.message);
}

grpc::Status status_of(const char* call, const Refusal& refusal) {
  log_line("warning", std::string(call) + ": " + refusal.what());
  return {static_cast<grpc::StatusCode>(refusal.code()), refusal.what()};
}

grpc::Status status_of(const char* call, const std::exception& error) {
  log_line("error", std::string(call) + ": " + error.what());
  return {grpc::StatusCode::INTERNAL, error.what()};
}

}  // namespace sluice::csi
