// SPDX-License-Identifier: Apache-2.0
#include "core/controller_service.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "core/refusal.h"

namespace sluice::csi {

void want_text(const std::string& text, const char* field) {
  if (text.empty()) refuse(Code::invalid_argument, fmt::format("{} is missing. Give one.", field));
  if (text.size() > 128) refuse(Code::invalid_argument, fmt::format("{} has more than 128 bytes. Shorten it.", field));
}

void want_capabilities(const std::vector<Capability>& capabilities, const ClassParameters& parsed) {
  if (capabilities.empty()) refuse(Code::invalid_argument, "volume_capabilities are missing. Give at least one.");
  for (const Capability& each : capabilities) check_capability(each, parsed);
}

bool ControllerService::is_here(const Map& segments) const {
  const auto node = segments.find(options_.names.topology_key());
  return node == segments.end() || node->second == options_.node;
}

bool ControllerService::suits(const Backend& backend, const ClassParameters& parsed) const {
  if (backend.kind() != parsed.backend) return false;
  if (parsed.gpu_affinity == GpuAffinity::any || !options_.affinity) return true;
  return options_.affinity(backend.drive({})) >= parsed.gpu_affinity;
}

VolumeAnswer ControllerService::answer(const Record& record) const {
  VolumeAnswer answer;
  answer.record = record;
  answer.context["backend"] = record.backend;
  // What the node needs to know of the class; the rest of it is in the record.
  for (const auto& [key, value] : record.parameters) {
    if (!key.starts_with("csi.storage.k8s.io/") && key != "backend") answer.context[key] = value;
  }
  if (options_.driver == Driver::local) answer.topology[options_.names.topology_key()] = options_.node;
  return answer;
}

// The backend with the most room among those that suit and are nearest to a GPU.
Backend& ControllerService::choose(const CreateVolumeCall& call, const ClassParameters& parsed,
                                   std::int64_t bytes) const {
  if (call.source.kind != ContentKind::empty) {
    const bool snapshot = call.source.kind == ContentKind::snapshot;
    return *volumes_.need(call.source.id, snapshot ? RecordKind::snapshot : RecordKind::volume).backend;
  }
  Backend* best = nullptr;
  std::pair<int, std::int64_t> best_value;
  bool any = false;
  for (Backend* const backend : volumes_.backends()) {
    if (!suits(*backend, parsed)) continue;
    any = true;
    const int near = options_.affinity ? static_cast<int>(options_.affinity(backend->drive({}))) : 0;
    const std::pair<int, std::int64_t> value = {near, backend->available()};
    if (backend->largest() < bytes || (best != nullptr && value <= best_value)) continue;
    best = backend;
    best_value = value;
  }
  if (best != nullptr) return *best;
  refuse(
      Code::resource_exhausted,
      any ? fmt::format("No {} of node {} has {} bytes left. Remove volumes, or use another node.",
                        name_of(parsed.backend), options_.node, bytes)
          : fmt::format("Node {} has no storage for backend {} as near to a GPU as the class wants. Set it up in the "
                        "chart's values, or widen gpuAffinity.",
                        options_.node, name_of(parsed.backend)));
}

VolumeAnswer ControllerService::create_volume(const CreateVolumeCall& call) {
  want_text(call.name, "name");
  if (options_.driver == Driver::fabrics) {
    refuse(Code::unsupported, "Namespaces are made on the target, and named in a PersistentVolume. See the guide.");
  }
  const ClassParameters parsed = parse_parameters(call.parameters, options_.driver, options_.names);
  want_capabilities(call.capabilities, parsed);
  parse_mutable(call.mutable_parameters, options_.driver);
  if (!call.requisite.empty() &&
      std::none_of(call.requisite.begin(), call.requisite.end(), [&](const Map& each) { return is_here(each); })) {
    refuse(Code::resource_exhausted,
           fmt::format(
               "The volume is wanted on another node, and this is {}. Set volumeBindingMode: WaitForFirstConsumer.",
               options_.node));
  }
  const OperationLocks::Guard guard = locks_.take("name " + call.name);
  // A source that is removed while it is copied would make half a copy.
  const OperationLocks::Guard source =
      locks_.take(call.source.id.empty() ? "nothing for " + call.name : call.source.id);
  const Volumes::Found old = volumes_.find_by_name(call.name, RecordKind::volume);
  if (old && old.record.state == RecordState::ready) {
    if (!fits(old.record.bytes, call.range) || old.record.source != call.source ||
        old.record.parameters != call.parameters) {
      refuse(Code::already_exists,
             fmt::format("{} exists as {} with {} bytes, of another size, content or class. Use another "
                         "name, or remove it.",
                         call.name, old.record.id, old.record.bytes));
    }
    return answer(old.record);
  }
  const VolumeRequest request = {call.name, call.range, call.source, call.parameters, call.mutable_parameters, parsed};
  const std::int64_t bytes = size_for(call.range, {4 * kibibyte, mebibyte, gibibyte});
  Backend& backend = old ? *old.backend : choose(call, parsed, bytes);
  return answer(backend.create(request));
}

void ControllerService::delete_volume(const std::string& id) {
  want_text(id, "volume_id");
  const Volumes::Found found = volumes_.find(id);
  if (!found || found.record.kind != RecordKind::volume) return;
  const OperationLocks::Guard by_name = locks_.take("name " + found.record.name);
  const OperationLocks::Guard guard = locks_.take(id);
  found.backend->remove(id);
}

std::string ControllerService::validate(const std::string& id, const std::vector<Capability>& capabilities,
                                        const Map& parameters) {
  want_text(id, "volume_id");
  if (capabilities.empty()) refuse(Code::invalid_argument, "volume_capabilities are missing. Give at least one.");
  const Volumes::Found found = volumes_.need(id, RecordKind::volume);
  try {
    if (!parameters.empty()) parse_parameters(parameters, options_.driver, options_.names);
    want_capabilities(capabilities, parse_parameters(found.record.parameters, options_.driver, options_.names));
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
  return {};
}

VolumeList ControllerService::list_volumes(int most, const std::string& token) {
  const std::vector<Volumes::Listed> all = volumes_.list(RecordKind::volume);
  const Page page = page_of(all, most, token);
  const std::vector<facts::Mount> mounts = all_mounts();
  VolumeList list;
  list.next = page.next;
  list.entries.reserve(page.end - page.begin);
  for (std::size_t i = page.begin; i < page.end; ++i) {
    list.entries.push_back({answer(all[i].record), all[i].backend->condition(all[i].record, mounts)});
  }
  return list;
}

VolumeList::Entry ControllerService::get_volume(const std::string& id) {
  want_text(id, "volume_id");
  const Volumes::Found found = volumes_.need(id, RecordKind::volume);
  return {answer(found.record), found.backend->condition(found.record, all_mounts())};
}

CapacityAnswer ControllerService::capacity(const std::vector<Capability>& capabilities, const Map& parameters,
                                           const Map& topology) {
  const ClassParameters parsed = parse_parameters(parameters, options_.driver, options_.names);
  for (const Capability& each : capabilities) check_capability(each, parsed);
  CapacityAnswer answer;
  if (!is_here(topology)) return answer;
  for (Backend* const backend : volumes_.backends()) {
    if (!suits(*backend, parsed)) continue;
    answer.available += backend->available();
    answer.largest = std::max(answer.largest, backend->largest());
    answer.smallest = answer.smallest == 0 ? backend->smallest() : std::min(answer.smallest, backend->smallest());
  }
  return answer;
}

Record ControllerService::create_snapshot(const std::string& name, const std::string& volume, const Map& parameters) {
  want_text(name, "name");
  want_text(volume, "source_volume_id");
  for (const auto& [key, value] : parameters) {
    if (key.starts_with("csi.storage.k8s.io/")) continue;
    refuse(Code::invalid_argument,
           fmt::format("\"{}\" is no parameter of snapshots. There are none; take it out.", key));
  }
  const OperationLocks::Guard by_name = locks_.take("snapshot " + name);
  const Volumes::Found old = volumes_.find_by_name(name, RecordKind::snapshot);
  if (old && old.record.state == RecordState::ready) {
    if (old.record.source.id == volume) return old.record;
    refuse(Code::already_exists, fmt::format("{} is a snapshot of {}. Use another name.", name, old.record.source.id));
  }
  const Volumes::Found found = volumes_.need(volume, RecordKind::volume);
  const OperationLocks::Guard guard = locks_.take(volume);
  return found.backend->snapshot(name, volume);
}

void ControllerService::delete_snapshot(const std::string& id) {
  want_text(id, "snapshot_id");
  const Volumes::Found found = volumes_.find(id);
  if (!found || found.record.kind != RecordKind::snapshot) return;
  const OperationLocks::Guard by_name = locks_.take("snapshot " + found.record.name);
  const OperationLocks::Guard guard = locks_.take(id);
  found.backend->remove_snapshot(id);
}

SnapshotList ControllerService::list_snapshots(int most, const std::string& token, const std::string& volume,
                                               const std::string& snapshot) {
  std::vector<Volumes::Listed> all = volumes_.list(RecordKind::snapshot);
  std::erase_if(all, [&](const Volumes::Listed& each) {
    return (!volume.empty() && each.record.source.id != volume) || (!snapshot.empty() && each.record.id != snapshot);
  });
  const Page page = page_of(all, most, token);
  SnapshotList list;
  list.next = page.next;
  for (std::size_t i = page.begin; i < page.end; ++i) list.entries.push_back(all[i].record);
  return list;
}

Record ControllerService::get_snapshot(const std::string& id) {
  want_text(id, "snapshot_id");
  return volumes_.need(id, RecordKind::snapshot).record;
}

void ControllerService::modify_volume(const std::string& id, const Map& parameters) {
  want_text(id, "volume_id");
  parse_mutable(parameters, options_.driver);
  if (options_.changes_are_followed) return;
  const Volumes::Found found = volumes_.need(id, RecordKind::volume);
  const OperationLocks::Guard guard = locks_.take(id);
  found.backend->modify(id, parameters);
  if (options_.changed) options_.changed(id);
}

}  // namespace sluice::csi
