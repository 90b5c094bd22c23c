// SPDX-License-Identifier: Apache-2.0
#include "core/affinity.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "facts/read.h"

namespace sluice::csi {
namespace {

struct Place {
  std::string root;  // "pci0000:10"
  std::string node;  // of memory; "-1" where the machine has one
};

// The device's folder in /sys/devices begins with its root: ".../devices/pci0000:10/0000:10:01.0/...".
Place place_at(const std::string& link) {
  std::error_code error;
  const std::string path = std::filesystem::canonical(link, error).string();
  Place place;
  const std::size_t begin = path.find("/pci");
  if (error || begin == std::string::npos) return place;
  place.root = path.substr(begin + 1, path.find('/', begin + 1) - begin - 1);
  // The nearest folder that tells a node: a namespace's own has none.
  for (std::string folder = path; folder.size() > begin + 1; folder = facts::parent_path(folder)) {
    if (const auto node = facts::read_value(folder + "/numa_node")) {
      place.node = *node;
      break;
    }
  }
  return place;
}

std::vector<Place> gpus(const facts::Root& root) {
  std::vector<Place> found;
  const std::string folder = root.at("/sys/bus/pci/devices");
  for (const std::string& name : facts::list_names(folder)) {
    const std::string device = fmt::format("{}/{}", folder, name);
    const std::string kind = facts::read_value(device + "/class").value_or("");
    const bool gpu = kind.starts_with("0x0300") || kind.starts_with("0x0302");
    if (gpu && facts::read_value(device + "/vendor") == "0x10de") found.push_back(place_at(device));
  }
  return found;
}

GpuAffinity affinity_at(const Place& drive, const std::vector<Place>& gpus) {
  GpuAffinity best = GpuAffinity::any;
  for (const Place& gpu : gpus) {
    if (!gpu.root.empty() && gpu.root == drive.root) return GpuAffinity::root;
    if (!gpu.node.empty() && gpu.node == drive.node) best = GpuAffinity::numa;
  }
  return best;
}

}  // namespace

GpuAffinity affinity_of(const std::string& disk, const facts::Root& root) {
  const std::vector<Place> all = gpus(root);
  if (all.empty() || disk.empty()) return GpuAffinity::any;
  const std::string folder = root.at("/sys/class/block/" + disk);
  const std::vector<std::string> members = facts::list_names(folder + "/slaves");
  if (members.empty()) return affinity_at(place_at(folder), all);
  GpuAffinity farthest = GpuAffinity::root;
  for (const std::string& each : members) {
    farthest = std::min(farthest, affinity_at(place_at(fmt::format("{}/slaves/{}", folder, each)), all));
  }
  return farthest;
}

}  // namespace sluice::csi
