// SPDX-License-Identifier: Apache-2.0
// Reading /sys/block/DISK/device: a controller, or the subsystem whose controllers lead to the disk.
#include "facts/nvme_paths.h"

#include <optional>
#include <string_view>

#include "facts/read.h"

namespace sluice::facts {

namespace {

// "traddr=127.0.0.1,trsvcid=4420,src_addr=127.0.0.1" -> "127.0.0.1:4420"; PCI addresses stand alone.
std::string short_address(const std::string& text) {
  const auto field = [&text](std::string_view name) {
    const std::size_t at = text.find(name);
    if (at == std::string::npos) return std::string();
    const std::size_t begin = at + name.size();
    return text.substr(begin, text.find(',', begin) - begin);
  };
  const std::string host = field("traddr=");
  const std::string service = field("trsvcid=");
  if (host.empty()) return text;
  return service.empty() ? host : host + ":" + service;
}

std::string value_in(const std::string& file) {
  return read_value(file).value_or("");
}

NvmePath path_of(const std::string& folder, const std::string& controller, const std::string& ana_state) {
  return {controller, value_in(folder + "/transport"), short_address(value_in(folder + "/address")),
          value_in(folder + "/state"), ana_state};
}

bool is_controller(std::string_view name) {
  constexpr std::string_view prefix = "nvme";
  return name.size() > prefix.size() && name.substr(0, prefix.size()) == prefix &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

// "nvme3n1" seen through nvme7 is "nvme3c7n1".
std::string hidden_name(const std::string& disk, const std::string& controller) {
  const std::size_t split = disk.find('n', 4);
  if (split == std::string::npos) return {};
  return disk.substr(0, split) + "c" + controller.substr(4) + disk.substr(split);
}

}  // namespace

std::vector<NvmePath> nvme_paths(const std::string& disk, const Root& root) {
  const std::string parent = root.at("/sys/block/" + disk + "/device");
  if (exists(parent + "/transport")) {
    const std::string own(last_component(read_link(parent).value_or("")));
    return {path_of(parent, own, value_in(parent + "/" + disk + "/ana_state"))};
  }
  std::vector<NvmePath> paths;
  for (const std::string& name : list_names(parent)) {
    if (!is_controller(name)) continue;
    std::string folder = parent;
    folder.append("/").append(name);
    std::string hidden = folder;
    hidden.append("/").append(hidden_name(disk, name));
    // Not every controller of a subsystem leads to every drive in it.
    if (!exists(hidden)) continue;
    paths.push_back(path_of(folder, name, value_in(hidden + "/ana_state")));
  }
  return paths;
}

std::string describe_nvme_paths(const std::string& disk, const Root& root) {
  const std::vector<NvmePath> paths = nvme_paths(disk, root);
  if (paths.empty() || (paths.size() == 1 && paths.front().transport == "pcie")) return {};
  std::string text;
  for (const NvmePath& path : paths) {
    if (!text.empty()) text += ", ";
    text += "path " + path.controller;
    for (const std::string& word : {path.transport, path.address, path.state, path.ana_state}) {
      if (!word.empty()) text.append(" ").append(word);
    }
  }
  return text;
}

}  // namespace sluice::facts
