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

std::vector<PciPlace> gpus(const facts::Root& root) {
  std::vector<PciPlace> found;
  const std::string folder = root.at("/sys/bus/pci/devices");
  for (const std::string& name : facts::list_names(folder)) {
    const std::string device = fmt::format("{}/{}", folder, name);
    const std::string kind = facts::read_value(device + "/class").value_or("");
    const bool gpu = kind.starts_with("0x0300") || kind.starts_with("0x0302");
    if (gpu && facts::read_value(device + "/vendor") == "0x10de") found.push_back(pci_place_at(device));
  }
  return found;
}

GpuAffinity affinity_at(const PciPlace& drive, const std::vector<PciPlace>& gpus) {
  GpuAffinity best = GpuAffinity::any;
  for (const PciPlace& gpu : gpus) {
    if (!gpu.root.empty() && gpu.root == drive.root) return GpuAffinity::root;
    if (!gpu.node.empty() && gpu.node == drive.node) best = GpuAffinity::numa;
  }
  return best;
}

}  // namespace

// The device's folder in /sys/devices begins with its root: ".../devices/pci0000:10/0000:10:01.0/...".
PciPlace pci_place_at(const std::string& link) {
  std::error_code error;
  const std::string path = std::filesystem::canonical(link, error).string();
  PciPlace place;
  const std::size_t begin = path.find("/pci");
  if (error || begin == std::string::npos) return place;
  place.root = path.substr(begin + 1, path.find('/', begin + 1) - begin - 1);
  // The nearest folder that tells: a namespace's own tells nothing.
  for (std::string folder = path; folder.size() > begin + 1; folder = facts::parent_path(folder)) {
    if (place.node.empty()) place.node = facts::read_value(folder + "/numa_node").value_or("");
    if (place.folder.empty() && facts::exists(folder + "/current_link_width")) place.folder = folder;
  }
  return place;
}

std::vector<std::string> links_of(const std::string& disk, const facts::Root& root) {
  const std::string folder = root.at("/sys/class/block/" + disk);
  std::vector<std::string> links;
  for (const std::string& each : facts::list_names(folder + "/slaves"))
    links.push_back(fmt::format("{}/slaves/{}", folder, each));
  if (links.empty()) links.push_back(folder);
  return links;
}

GpuAffinity affinity_of(const std::string& disk, const facts::Root& root) {
  const std::vector<PciPlace> all = gpus(root);
  if (all.empty() || disk.empty()) return GpuAffinity::any;
  GpuAffinity farthest = GpuAffinity::root;
  for (const std::string& each : links_of(disk, root))
    farthest = std::min(farthest, affinity_at(pci_place_at(each), all));
  return farthest;
}

}  // namespace sluice::csi
