// SPDX-License-Identifier: Apache-2.0
#include "core/class_follower.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/kube_api.h"
#include "core/kubelet_paths.h"
#include "core/log.h"
#include "core/refusal.h"

namespace sluice::csi {
namespace {

using Json = nlohmann::json;

// Of what the API server has in memory, because a minute more or less does not matter.
Json object_at(KubeApi& api, const std::string& path) {
  const HttpAnswer answer = api.get(path + "?resourceVersion=0");
  if (answer.status != 200) {
    refuse(Code::internal,
           fmt::format("reading {}: the API server answers {}. Look at the chart's ClusterRole.", path, answer.status));
  }
  return Json::parse(answer.body, nullptr, false);
}

std::string text_at(const Json& object, const char* pointer) {
  const Json::json_pointer at(pointer);
  return object.contains(at) && object[at].is_string() ? object[at].get<std::string>() : std::string();
}

}  // namespace

ClassFollower::ClassFollower(FollowerOptions options)
    : options_(std::move(options)), queue_([this](const Volume& volume) {
        try {
          follow(volume);
          told_.erase(volume.id);
        } catch (const std::exception& error) {
          if (std::exchange(told_[volume.id], error.what()) != error.what())
            log_event("Warning", "ClassNotFollowed", volume.id, error.what());
        }
      }) {}

void ClassFollower::look(const std::string& id, const std::string& target) {
  const std::string persistent = persistent_volume_of(target);
  if (persistent.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.insert(id).second) return;
  }
  queue_.add({id, persistent});
}

void ClassFollower::follow(const Volume& volume) {
  {
    // From here on a look counts anew: the class may change after it was read.
    const std::lock_guard lock(mutex_);
    waiting_.erase(volume.id);
  }
  KubeApi api(options_.kube, options_.account);
  const Json persistent = object_at(api, "/api/v1/persistentvolumes/" + volume.persistent);
  if (text_at(persistent, "/spec/csi/volumeHandle") != volume.id) return;
  const std::string name = text_at(persistent, "/spec/volumeAttributesClassName");
  if (name.empty() || class_[volume.id] == name) return;
  const Json wanted = object_at(api, "/apis/storage.k8s.io/v1/volumeattributesclasses/" + name);
  if (text_at(wanted, "/driverName") != options_.driver) return;
  Map parameters;
  const Json none = Json::object();
  for (const auto& [key, value] : (wanted.contains("parameters") ? wanted["parameters"] : none).items()) {
    if (value.is_string()) parameters[key] = value.get<std::string>();
  }
  options_.change(volume.id, parameters);
  constexpr std::size_t most_remembered = 4096;
  if (class_.size() >= most_remembered) class_.clear();  // volumes go, and are not told of here
  class_[volume.id] = name;
  log_line("info", fmt::format("{} has the VolumeAttributesClass {} now.", volume.id, name));
}

}  // namespace sluice::csi
