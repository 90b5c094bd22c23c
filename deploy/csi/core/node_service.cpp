// SPDX-License-Identifier: Apache-2.0
#include "core/node_service.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/bandwidth.h"
#include "core/bytes.h"
#include "core/kubelet_paths.h"
#include "core/log.h"
#include "core/mount_options.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

bool is_inline(const Map& context) {
  const auto word = context.find("csi.storage.k8s.io/ephemeral");
  return word != context.end() && word->second == "true";
}

bool is_one_writer(const Capability& capability) {
  return capability.mode == AccessMode::single_node_single_writer;
}

bool wants_read_only(const PublishRequest& request) {
  return request.read_only || request.capability.mode == AccessMode::single_node_reader_only;
}

// What kubelet and the provisioner add to a volume's attributes is not the class's.
Map class_part(const Map& context) {
  Map parameters;
  for (const auto& [key, value] : context) {
    if (!key.starts_with("csi.storage.k8s.io/") && !key.starts_with("storage.kubernetes.io/")) parameters[key] = value;
  }
  return parameters;
}

}  // namespace

void want_path(const std::string& path, const char* field) {
  if (path.empty()) refuse(Code::invalid_argument, fmt::format("{} is missing. Give one.", field));
  const bool climbs = (path + "/").find("/../") != std::string::npos;
  if (path.front() != '/' || path.size() > 4096 || climbs || path.find('\0') != std::string::npos) {
    refuse(Code::invalid_argument, fmt::format("{} is no absolute path without \"..\". Give one.", field));
  }
}

Backend& NodeService::backend_of(const StageRequest& request) {
  if (options_.driver == Driver::local) return *volumes_.need(request.id, RecordKind::volume).backend;
  // Of drives over fabrics the attributes say all; the record comes with the first stage.
  return *volumes_.backends().front();
}

void NodeService::stage(const StageRequest& request) {
  want_text(request.id, "volume_id");
  want_path(request.path, "staging_target_path");
  if (request.capability.type == AccessType::none) {
    refuse(Code::invalid_argument, "volume_capability is missing. Give one.");
  }
  const OperationLocks::Guard guard = locks_.take(request.id);
  Backend& backend = backend_of(request);
  const ClassParameters parsed = parse_parameters(class_part(request.volume_context), options_.driver, options_.names);
  check_capability(request.capability, parsed);
  const std::vector<std::string> notes = backend.stage(request);
  for (const std::string& note : notes) log_event("Warning", "MountOptionLeftOut", request.id, note);
  try_direct_path(backend, request, parsed, notes);
}

// After mounting, because a drive over fabrics is not there before. A refusal leaves the mount to the next call.
void NodeService::try_direct_path(Backend& backend, const StageRequest& request, const ClassParameters& parsed,
                                  const std::vector<std::string>& notes) {
  std::string told = "off";
  if (parsed.direct_path != DirectPath::off) {
    const Verdict verdict = trials_.of(backend.drive(request.id), backend.trial_file(request.id));
    told = fmt::format("{}: {}", name_of(verdict.direct), verdict.text);
    backend.keep_notes(request.id, told, notes);
    if (!options_.features.empty()) write_feature(options_.features, options_.names.domain, verdict.direct);
    Trials::want(parsed.direct_path, verdict);
    return;
  }
  backend.keep_notes(request.id, told, notes);
}

void NodeService::unstage(const std::string& id, const std::string& path) {
  want_text(id, "volume_id");
  want_path(path, "staging_target_path");
  const OperationLocks::Guard guard = locks_.take(id);
  const Volumes::Found found = volumes_.find(id);
  if (found) found.backend->unstage(id, path);
}

void NodeService::publish(const PublishCall& call) {
  const PublishRequest& request = call.request;
  want_text(request.id, "volume_id");
  want_path(request.target, "target_path");
  if (request.capability.type == AccessType::none) {
    refuse(Code::invalid_argument, "volume_capability is missing. Give one.");
  }
  const OperationLocks::Guard guard = locks_.take(request.id);
  if (is_inline(call.volume_context)) {
    publish_kit(request);
    return;
  }
  const Volumes::Found found = volumes_.need(request.id, RecordKind::volume);
  if (request.staging.empty()) {
    refuse(Code::failed_precondition, "staging_target_path is missing. Stage the volume first.");
  }
  want_path(request.staging, "staging_target_path");
  check_capability(request.capability, parse_parameters(found.record.parameters, options_.driver, options_.names));
  if (!found.backend->is_staged(request.id, request.staging)) {
    refuse(Code::failed_precondition,
           fmt::format("{} is not staged at {}. Stage it first.", request.id, request.staging));
  }
  const std::vector<facts::Mount> mounts = all_mounts();
  PublishRequest wanted = request;
  wanted.read_only = wants_read_only(request);
  for (const facts::Mount& each : found.backend->places(request.id, mounts)) {
    if (each.point == request.target) {
      if (is_read_only(each) == wanted.read_only) return;
      refuse(Code::already_exists, fmt::format("{} is published at {} already, {}. Unpublish it first.", request.id,
                                               request.target, is_read_only(each) ? "read-only" : "for writing"));
    }
    if (each.point != request.staging && is_one_writer(request.capability)) {
      refuse(Code::failed_precondition,
             fmt::format("{} is for one pod (ReadWriteOncePod), and published at {}. End that pod.", request.id,
                         each.point));
    }
  }
  if (const std::optional<facts::Mount> other = mount_at(mounts, request.target)) {
    if (!is_stale(*other)) {
      refuse(Code::failed_precondition,
             fmt::format("{} already has a mount of {}{}. Unmount it.", request.target, other->source, other->root));
    }
    unmount_all(request.target);
  }
  found.backend->publish(wanted);
  limit_bandwidth(pod_of(request.target), request.id);
  if (options_.seen) options_.seen(request.id, request.target);
}

void NodeService::keep_to_bandwidth(const std::string& id) {
  const Volumes::Found found = volumes_.find(id);
  if (!found || options_.cgroups.empty()) return;
  std::set<std::string> pods;
  for (const facts::Mount& place : found.backend->places(id, all_mounts())) pods.insert(pod_of(place.point));
  for (const std::string& pod : pods) limit_bandwidth(pod, id);
}

void NodeService::limit_bandwidth(const std::string& pod, const std::string& id) {
  if (options_.cgroups.empty() || pod.empty()) return;
  const std::vector<Volumes::Listed> all = volumes_.list(RecordKind::volume);
  const auto has_one = [](const Volumes::Listed& each) { return each.record.mutable_parameters.contains("bandwidth"); };
  if (std::none_of(all.begin(), all.end(), has_one)) return;
  const std::vector<facts::Mount> mounts = all_mounts();
  DriveLimits limits;
  bool wanted = false;
  for (const Volumes::Listed& each : all) {
    const std::optional<std::int64_t> bytes = parse_bandwidth(each.record.mutable_parameters);
    for (const facts::Mount& place : each.backend->places(each.record.id, mounts)) {
      if (pod_of(place.point) != pod) continue;
      struct stat status {};
      const bool raw = stat(place.point.c_str(), &status) == 0 && S_ISBLK(status.st_mode);
      const std::optional<std::string> drive = whole_drive_of(raw ? status.st_rdev : place.device);
      if (!drive) continue;
      wanted = wanted || has_one(each);
      const auto [limit, is_first] = limits.try_emplace(*drive, bytes);
      if (!is_first) limit->second = limit->second && bytes ? std::optional(*limit->second + *bytes) : std::nullopt;
    }
  }
  if (!wanted) return;
  const std::string why = set_limits(options_.cgroups, pod, limits);
  const std::lock_guard lock(told_mutex_);
  if (why.empty()) {
    told_.erase(pod);
  } else if (std::exchange(told_[pod], why) != why) {
    log_event("Warning", "BandwidthNotEnforced", id, why);
  }
}

bool NodeService::shows_kit(const facts::Mount& mount) const {
  const std::optional<facts::Mount> below = mount_of(all_mounts(), options_.kit);
  return below && below->device == mount.device && mount.root == path_in_file_system(*below, options_.kit);
}

// The library and its configuration, read-only: an inline volume is no storage.
void NodeService::publish_kit(const PublishRequest& request) {
  if (request.capability.type == AccessType::block) {
    refuse(Code::invalid_argument,
           "An inline volume of this driver holds the library, and is no raw device. Mount it.");
  }
  if (options_.kit.empty() || !facts::exists(options_.kit)) {
    refuse(Code::failed_precondition,
           "An inline volume shows the library, and this node's driver has none (--kit). For storage use a claim.");
  }
  if (const std::optional<facts::Mount> mount = mount_at(all_mounts(), request.target)) {
    if (shows_kit(*mount)) return;
    refuse(Code::failed_precondition, request.target + " already has another mount. Unmount it.");
  }
  make_folder(request.target, 0750);
  bind_mount(options_.kit, request.target, MS_RDONLY | MS_NODEV | MS_NOSUID);
}

void NodeService::unpublish(const std::string& id, const std::string& target) {
  want_text(id, "volume_id");
  want_path(target, "target_path");
  const OperationLocks::Guard guard = locks_.take(id);
  const std::vector<facts::Mount> mounts = all_mounts();
  const std::optional<facts::Mount> mount = mount_at(mounts, target);
  const Volumes::Found found = volumes_.find(id);
  if (mount) {
    bool ours = is_stale(*mount) || (!options_.kit.empty() && shows_kit(*mount));
    if (found) {
      const std::vector<facts::Mount> places = found.backend->places(id, mounts);
      ours = ours || std::any_of(places.begin(), places.end(), [&](const auto& each) { return each.point == target; });
    }
    if (!ours) {
      if (!found) return;  // of a volume that we do not know we touch nothing
      refuse(Code::failed_precondition, fmt::format("{} shows {}{}, which is not {}. Look at who mounted it.", target,
                                                    mount->source, mount->root, id));
    }
    unmount_all(target);
  }
  remove_target(target);
}

StatsAnswer NodeService::stats(const std::string& id, const std::string& path) {
  want_text(id, "volume_id");
  want_path(path, "volume_path");
  const Volumes::Found found = volumes_.need(id, RecordKind::volume);
  const std::vector<facts::Mount> mounts = all_mounts();
  const std::vector<facts::Mount> places = found.backend->places(id, mounts);
  const bool shows = std::any_of(places.begin(), places.end(), [&](const auto& each) { return each.point == path; });
  // Where the drive is gone, no place of the volume is known; its mounts are still there.
  const std::optional<facts::Mount> mount = mount_at(mounts, path);
  if (!shows && !(mount && is_stale(*mount))) {
    refuse(Code::not_found, fmt::format("{} is not at {}. Publish it first.", id, path));
  }
  StatsAnswer answer;
  answer.condition = found.backend->condition(found.record, mounts);
  // It came back as another device, which the pod does not see.
  if (!shows && !answer.condition.abnormal) answer.condition = stale_condition(*mount);
  if (!shows) return answer;
  if (!answer.condition.abnormal) answer.usage = found.backend->usage(id, path);
  // The pod's cgroup may have come after its volumes.
  limit_bandwidth(pod_of(path), id);
  if (options_.seen) options_.seen(id, path);
  return answer;
}

std::int64_t NodeService::expand(const std::string& id, const std::string& path, const Range& range) {
  want_text(id, "volume_id");
  want_path(path, "volume_path");
  const Volumes::Found found = volumes_.need(id, RecordKind::volume);
  const OperationLocks::Guard guard = locks_.take(id);
  const std::vector<facts::Mount> places = found.backend->places(id, all_mounts());
  if (std::none_of(places.begin(), places.end(), [&](const auto& each) { return each.point == path; })) {
    refuse(Code::not_found, fmt::format("{} is not at {}. Stage it first.", id, path));
  }
  if (range.limit > 0 && range.required > range.limit) {
    refuse(Code::out_of_range, "More bytes are required than are allowed. Raise the limit.");
  }
  if (range.limit > 0 && found.record.bytes > range.limit) {
    refuse(Code::out_of_range,
           fmt::format("{} has {} bytes already, and volumes do not shrink.", id, found.record.bytes));
  }
  return found.backend->grow(id, std::max(range.required, found.record.bytes), path).bytes;
}

}  // namespace sluice::csi
