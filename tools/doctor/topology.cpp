// SPDX-License-Identifier: Apache-2.0
// Section topology: which drive and which card is near which GPU.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/sections.h"

namespace sluice::doctor {
namespace {

struct Neighbour {
  std::string name;
  const Card* card;
};

std::vector<Neighbour> neighbours_of(const Machine& machine) {
  std::vector<Neighbour> all;
  for (const Drive& drive : machine.drives) {
    if (drive.transport == "pcie") all.push_back({drive.controller, &drive.card});
  }
  for (const Card& nic : machine.nics) all.push_back({nic.address, &nic});
  return all;
}

void judge_neighbour(const Machine& machine, const Neighbour& neighbour, Report& report) {
  std::vector<std::string> near;
  for (const Gpu& gpu : machine.gpus) {
    if (gpu.card.node == neighbour.card->node) near.push_back(gpu.card.address);
  }
  std::string line = neighbour.name + ":";
  for (const Gpu& gpu : machine.gpus) {
    line += fmt::format(" {} {};", gpu.card.address, distance_words(gpu.card, *neighbour.card));
    if (!common_bridge(gpu.card, *neighbour.card).empty() && machine.hypervisor.empty()) {
      report.add(finding_at("topology.same_switch"), {{"device", neighbour.name}, {"gpu", name_of(gpu.card)}});
    }
  }
  report.fact(Section::topology, line);
  // Where some GPU is near, the others are not for this device; where none is, every use of it crosses.
  if (!near.empty() || neighbour.card->node < 0) return;
  for (const Gpu& gpu : machine.gpus) {
    if (gpu.card.node < 0) continue;
    report.add(finding_at("topology.cross_socket"), {{"device", neighbour.name},
                                                     {"device_node", std::to_string(neighbour.card->node)},
                                                     {"gpu", name_of(gpu.card)},
                                                     {"gpu_node", std::to_string(gpu.card.node)},
                                                     {"better", "a GPU of its own node, or move one of both"}});
    return;
  }
}

}  // namespace

const char* distance_words(const Card& a, const Card& b) {
  if (!common_bridge(a, b).empty()) return "same switch";
  if (!a.root.empty() && a.root == b.root) return "same host bridge";
  if (a.node >= 0 && a.node == b.node) return "same NUMA node";
  return a.node >= 0 && b.node >= 0 ? "other NUMA node" : "unknown";
}

void judge_topology(const Machine& machine, Report& report) {
  std::size_t nodes = 0;
  for (const std::string& name : machine.tree.names("/sys/devices/system/node")) {
    if (!name.starts_with("node") || !to_number(std::string_view(name).substr(4))) continue;
    ++nodes;
    const std::string folder = "/sys/devices/system/node/" + name;
    report.fact(Section::topology,
                fmt::format("{}: processors {}, distances {}", name, machine.tree.value(folder + "/cpulist"),
                            machine.tree.value(folder + "/distance")));
  }
  if (machine.gpus.empty()) return;
  const bool placed =
      std::any_of(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& gpu) { return gpu.card.node >= 0; });
  if (nodes > 1 && !placed) report.add(finding_at("topology.unknown_nodes"), {{"count", std::to_string(nodes)}});
  for (const Neighbour& neighbour : neighbours_of(machine)) judge_neighbour(machine, neighbour, report);
}

}  // namespace sluice::doctor
