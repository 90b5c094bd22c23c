// SPDX-License-Identifier: Apache-2.0
// Lines with branches before them, and tables.
#include "topology_view/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "config/json.h"
#include "facts/mount.h"
#include "topology/distance.h"
#include "topology_view/tree.h"

namespace sluice::topology_view {
namespace {

using topology::Device;
using topology::Kind;
using topology::Machine;

// Names of files and interfaces are others' words.
std::string safe(const std::string& text) {
  return config::printable(text);
}

std::string line_of(const Machine& machine, const Twig& twig) {
  if (twig.device != nullptr) {
    const Device& device = *twig.device;
    std::string line = fmt::format("{:<8} {}", safe(device.name), device.place.address);
    for (const std::string& part : {about(device), link_words(machine, device)}) {
      if (!part.empty()) line += "  " + safe(part);
    }
    return line;
  }
  if (twig.bridge == nullptr) return "host bridge " + twig.root;
  std::string line = fmt::format("{} {}", is_upper_port(*twig.bridge) ? "switch" : "port", twig.bridge->place.address);
  if (const std::string link = link_words(machine, *twig.bridge); !link.empty()) line += "  " + link;
  if (twig.bridge->acs == topology::Acs::on) line += "  access control on";
  return line;
}

void draw(const Machine& machine, const std::vector<Twig>& twigs, const std::string& before, std::string& text) {
  for (const Twig& twig : twigs) {
    const bool last = &twig == &twigs.back();
    text += fmt::format("{}{}{}\n", before, last ? "└─ " : "├─ ", line_of(machine, twig));
    draw(machine, twig.twigs, before + (last ? "   " : "│  "), text);
  }
}

std::size_t widest(const std::vector<const Device*>& devices, std::size_t least) {
  for (const Device* const device : devices) least = std::max(least, device->name.size());
  return least;
}

std::vector<const Device*> ends_of(const Machine& machine) {
  std::vector<const Device*> ends;
  for (const Device& device : machine.devices) {
    if (device.kind != Kind::gpu) ends.push_back(&device);
  }
  return ends;
}

void add_table(const Machine& machine, std::string& text) {
  const std::vector<const Device*> gpus = devices_of(machine, Kind::gpu);
  const std::vector<const Device*> ends = ends_of(machine);
  if (gpus.empty() || ends.empty()) return;
  const std::size_t first = widest(ends, 8);
  text += fmt::format("\n{:<{}}", "distance", first);
  for (const Device* const gpu : gpus) text += fmt::format("  {:<6}", gpu->name);
  text = text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  for (const Device* const end : ends) {
    text += fmt::format("{:<{}}", safe(end->name), first);
    for (const Device* const gpu : gpus) {
      text += fmt::format("  {:<6}", short_words_of(distance_between(machine, *end, *gpu).nearness));
    }
    text = text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  text += machine.flat ? "?: the bus does not tell\n"
                       : "switch: below one switch; root: one host bridge; node: one NUMA node; far: another one\n";
}

void add_beside(const Machine& machine, std::string& text) {
  std::string lines;
  for (const topology::Remote& remote : machine.remotes) {
    lines += fmt::format("{}  {} {}{}\n", safe(remote.name), safe(remote.transport), safe(remote.address),
                         remote.card.empty() ? "" : ", by " + safe(remote.card));
  }
  for (const Device& device : machine.devices) {
    if (device.place.address.empty())
      lines += fmt::format("{}  on no bus  {}\n", safe(device.name), safe(about(device)));
  }
  if (!lines.empty()) text += "\n" + lines;
}

void add_route(const topology::Route& route, std::string& text) {
  text += fmt::format("{} {}  {}  {}\n", safe(route.device), route.gpu, route.policy ? name_of(*route.policy) : "-",
                      safe(route.why));
  for (const topology::Passed& passed : route.passed) {
    text += fmt::format("    not {}: {}\n", name_of(passed.policy), safe(passed.why));
  }
}

std::string order_words(const topology::RoutingRules& rules) {
  std::string text = rules.on ? "dynamic routing is on" : "dynamic routing is off: this is how it would be";
  text += "\norder:";
  for (const topology::Policy policy : rules.order) text += fmt::format(" {}", name_of(policy));
  return text + "\n\n";
}

void add_list(const Machine& machine, const topology::AddressList& list, const topology::RoutingRules& rules,
              std::string& text) {
  text += fmt::format("{}{}{}\n", list.key, list.mount.empty() ? "" : " ", safe(list.mount));
  for (const topology::Adapter& adapter : topology::adapters_of(machine, list.addresses)) {
    text += fmt::format("    {}: {}\n", safe(adapter.address),
                        safe(adapter.objection.empty() ? adapter.card->name : "cannot be used: " + adapter.objection));
  }
  for (const Device* const gpu : devices_of(machine, Kind::gpu)) {
    const topology::MountRoute mount = route_for(machine, list, *gpu, rules);
    if (mount.route) {
      add_route(*mount.route, text);
    } else {
      text += fmt::format("- {}  -  no way by RDMA: {}\n", gpu->name, mount.why_none);
    }
  }
}

bool lies_below(std::string_view path, std::string_view point) {
  if (point == "/") return true;
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

// The last line of the deepest point above the path: later mounts lie over earlier ones.
std::optional<facts::Mount> mount_above(std::string_view mountinfo, std::string_view path) {
  std::optional<facts::Mount> deepest;
  while (!mountinfo.empty()) {
    const std::size_t end = std::min(mountinfo.find('\n'), mountinfo.size());
    std::optional<facts::Mount> mount = facts::parse_mount(mountinfo.substr(0, end));
    mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
    if (!mount || !lies_below(path, mount->point)) continue;
    if (!deepest || mount->point.size() >= deepest->point.size()) deepest = std::move(mount);
  }
  return deepest;
}

// "nvme0" of "/dev/nvme0n1p2".
const Device* drive_of(const Machine& machine, const std::string& source) {
  constexpr std::string_view begin = "/dev/nvme";
  if (!source.starts_with(begin)) return nullptr;
  const std::size_t end = std::min(source.find_first_not_of("0123456789", begin.size()), source.size());
  return find_device(machine, source.substr(5, end - 5));
}

}  // namespace

std::string as_text(const Machine& machine) {
  std::string text = safe(title_of(machine)) + "\n";
  for (const Branch& branch : grow(machine)) {
    text += branch.node < 0 ? "\nno node told\n" : fmt::format("\nnode {}", branch.node);
    if (branch.node >= 0)
      text += branch.processors.empty() ? "\n" : fmt::format("  processors {}\n", branch.processors);
    draw(machine, branch.twigs, "", text);
  }
  add_beside(machine, text);
  if (const Joined joined = joined_of(machine); !joined.words.empty()) text += "\n" + joined.words + "\n";
  add_table(machine, text);
  return text;
}

std::string routes_as_text(const Machine& machine, const config::Config& config, const topology::RoutingRules& rules) {
  std::string text = order_words(rules);
  for (const Device* const end : ends_of(machine)) {
    for (const Device* const gpu : devices_of(machine, Kind::gpu)) {
      add_route(route_between(machine, *end, *gpu, rules), text);
    }
  }
  for (const topology::AddressList& list : topology::all_address_lists(config)) {
    text += "\n";
    add_list(machine, list, rules, text);
  }
  return text;
}

std::string routes_to_file_as_text(const Machine& machine, const config::Config& config,
                                   const topology::RoutingRules& rules, const std::string& mountinfo,
                                   const std::string& path) {
  const std::optional<facts::Mount> mount = mount_above(mountinfo, path);
  if (!mount) return safe(path) + ": no mount is above it\n";
  std::string text =
      fmt::format("{}: {} at {}, from {}\n", safe(path), safe(mount->type), safe(mount->point), safe(mount->source));
  const std::string_view name = topology::routed_name(mount->type);
  if (!name.empty()) {
    const topology::AddressList list = topology::addresses_for(config, name, path);
    text += order_words(rules);
    if (list.key.empty()) return text + "no list in cufile.json gives addresses for it\n";
    add_list(machine, list, rules, text);
    return text;
  }
  const Device* const drive = drive_of(machine, mount->source);
  if (drive == nullptr)
    return text + "dynamic routing is for drives on the bus, and for lustre, beegfs, nfs, weka and gpfs\n";
  text += order_words(rules);
  for (const Device* const gpu : devices_of(machine, Kind::gpu)) {
    add_route(route_between(machine, *drive, *gpu, rules), text);
  }
  return text;
}

}  // namespace sluice::topology_view
