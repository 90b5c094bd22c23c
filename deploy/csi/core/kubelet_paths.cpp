// SPDX-License-Identifier: Apache-2.0
#include "core/kubelet_paths.h"

#include <string_view>

namespace sluice::csi {
namespace {

constexpr std::string_view of_devices = "/volumeDevices/publish/";

// The component behind these words.
std::string component_behind(const std::string& path, std::string_view words) {
  const std::size_t at = path.find(words);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + words.size();
  const std::size_t end = path.find('/', begin);
  return end == std::string::npos ? std::string() : path.substr(begin, end - begin);
}

}  // namespace

std::string pod_of(const std::string& target) {
  const std::string name = component_behind(target, of_devices);
  if (name.empty()) return component_behind(target, "/pods/");
  return component_behind(target + "/", std::string(of_devices) + name + "/");
}

std::string persistent_volume_of(const std::string& target) {
  const std::string name = component_behind(target, of_devices);
  return name.empty() ? component_behind(target, "/volumes/kubernetes.io~csi/") : name;
}

}  // namespace sluice::csi
