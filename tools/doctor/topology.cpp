// SPDX-License-Identifier: Apache-2.0
// Section topology: which drive and which card is near which GPU.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/sections.h"
#include "topology/distance.h"

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
    line += fmt::format(" {} {};", gpu.card.address, distance_words(machine, gpu.card, *neighbour.card));
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

std::string link_words(double speed, int width) {
  return fmt::format("{} GT/s by {} lanes", speed, width);
}

void report_trained_down(const Machine& machine, const std::string& name, const topology::Place& place,
                         Report& report) {
  const topology::Link best = best_of(machine.bus, place);
  report.add(finding_at("topology.trained_down"), {{"device", name},
                                                   {"now", link_words(best.speed, best.width)},
                                                   {"most", link_words(best.most_speed, best.most_width)}});
}

// GPUs and drives have findings of their own.
void judge_links(const Machine& machine, Report& report) {
  for (const topology::Device& device : machine.bus.devices) {
    if (device.kind != topology::Kind::nic || !trained_down(machine.bus, device)) continue;
    report_trained_down(machine, device.name, device.place, report);
  }
  for (const auto& [address, bridge] : machine.bus.bridges) {
    if (trained_down(machine.bus, bridge)) report_trained_down(machine, "the switch " + address, bridge.place, report);
  }
}

}  // namespace

const char* distance_words(const Machine& machine, const Card& a, const Card& b) {
  const topology::Device* const one = topology::find_device(machine.bus, a.address);
  const topology::Device* const other = topology::find_device(machine.bus, b.address);
  const bool both = one != nullptr && other != nullptr;
  return words_of(both ? distance_between(machine.bus, *one, *other).nearness : topology::Nearness::unknown);
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
  judge_links(machine, report);
  const bool placed =
      std::any_of(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& gpu) { return gpu.card.node >= 0; });
  if (nodes > 1 && !placed) report.add(finding_at("topology.unknown_nodes"), {{"count", std::to_string(nodes)}});
  for (const Neighbour& neighbour : neighbours_of(machine)) judge_neighbour(machine, neighbour, report);
}

}  // namespace sluice::doctor
