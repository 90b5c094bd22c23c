// SPDX-License-Identifier: Apache-2.0
// Counting bridges.
#include "topology/distance.h"

#include <algorithm>

namespace sluice::topology {

namespace {

constexpr int within_a_node = 127;
constexpr int across_nodes = 254;

// How many bridges of `device` lie below the bridge that both share; all where they share none.
int bridges_below(const Device& device, const Bridge* shared) {
  const auto& above = device.place.above;
  if (shared == nullptr) return static_cast<int>(above.size());
  return static_cast<int>(std::find(above.begin(), above.end(), shared->place.address) - above.begin());
}

bool nodes_are_close(const Machine& machine, int a, int b) {
  if (a == b) return true;
  if (a < 0 || b < 0) return false;
  for (const Node& node : machine.nodes) {
    const auto at = static_cast<std::size_t>(b);
    if (node.number == a && at < node.distances.size()) return node.distances[at] == 10;
  }
  return false;
}

Nearness nearness_of(const Machine& machine, const Device& a, const Device& b, const Bridge* shared) {
  if (a.place.address.empty() || b.place.address.empty()) return Nearness::unknown;
  if (shared != nullptr) return Nearness::same_switch;
  const bool placed = a.place.node >= 0 && b.place.node >= 0;
  // Of one node only there is nothing that could differ.
  const bool bus_tells = !machine.flat && !(a.place.above.empty() && b.place.above.empty());
  if (bus_tells && !a.place.root.empty() && a.place.root == b.place.root) return Nearness::same_root;
  if (!bus_tells && machine.nodes.size() < 2) return Nearness::unknown;
  if (!placed) return Nearness::unknown;
  return nodes_are_close(machine, a.place.node, b.place.node) ? Nearness::same_node : Nearness::far;
}

double own_bandwidth(const Device& device) {
  return bandwidth_of(std::max(device.place.link.speed, device.place.link.most_speed), device.place.link.width);
}

// The links of the bridges of `device` below the shared one; lower ports have none of their own upwards.
double narrowest(const Machine& machine, const Device& device, const Bridge* shared) {
  double least =
      device.kind == Kind::gpu ? own_bandwidth(device) : bandwidth_of(device.place.link.speed, device.place.link.width);
  // What a hypervisor tells of the links of ports is its invention.
  const int count = machine.guest ? 0 : bridges_below(device, shared);
  for (int i = 0; i < count; ++i) {
    const auto found = machine.bridges.find(device.place.above[static_cast<std::size_t>(i)]);
    if (found == machine.bridges.end() || !is_upper_port(found->second)) continue;
    const Link& link = found->second.place.link;
    const double bandwidth = bandwidth_of(link.speed, link.width);
    if (bandwidth > 0) least = least > 0 ? std::min(least, bandwidth) : bandwidth;
  }
  return least;
}

}  // namespace

const char* words_of(Nearness nearness) {
  switch (nearness) {
    case Nearness::same_switch:
      return "same switch";
    case Nearness::same_root:
      return "same host bridge";
    case Nearness::same_node:
      return "same NUMA node";
    case Nearness::far:
      return "other NUMA node";
    case Nearness::unknown:
      break;
  }
  return "unknown";
}

const char* short_words_of(Nearness nearness) {
  switch (nearness) {
    case Nearness::same_switch:
      return "switch";
    case Nearness::same_root:
      return "root";
    case Nearness::same_node:
      return "node";
    case Nearness::far:
      return "far";
    case Nearness::unknown:
      break;
  }
  return "?";
}

const Bridge* shared_bridge(const Machine& machine, const Device& a, const Device& b) {
  if (machine.flat) return nullptr;
  for (const std::string& bridge : a.place.above) {
    if (std::find(b.place.above.begin(), b.place.above.end(), bridge) == b.place.above.end()) continue;
    const auto found = machine.bridges.find(bridge);
    return found == machine.bridges.end() ? nullptr : &found->second;
  }
  return nullptr;
}

Distance distance_between(const Machine& machine, const Device& a, const Device& b) {
  const Bridge* const shared = shared_bridge(machine, a, b);
  Distance distance;
  distance.nearness = nearness_of(machine, a, b, shared);
  const double one = narrowest(machine, a, shared);
  const double other = narrowest(machine, b, shared);
  distance.bandwidth = one > 0 && other > 0 ? std::min(one, other) : 0;
  if (distance.nearness == Nearness::unknown) return distance;
  distance.steps = bridges_below(a, shared) + bridges_below(b, shared) + 1;
  if (shared != nullptr && shared->acs == Acs::on) distance.steps += static_cast<int>(shared->place.above.size());
  if (distance.nearness == Nearness::same_root || distance.nearness == Nearness::same_node) {
    distance.steps += within_a_node;
  }
  if (distance.nearness == Nearness::far) distance.steps += across_nodes;
  return distance;
}

bool goes_up(const Machine& machine, const Device& a, const Device& b) {
  const Bridge* const shared = shared_bridge(machine, a, b);
  if (shared == nullptr) return false;
  const auto sends_up = [&machine](const std::string& address) {
    const auto found = machine.bridges.find(address);
    return found != machine.bridges.end() && found->second.acs == Acs::on;
  };
  for (const Device* const device : {&a, &b}) {
    const auto first = device->place.above.begin();
    if (std::any_of(first, first + bridges_below(*device, shared) + 1, sends_up)) return true;
  }
  return false;
}

int preference_of(const Distance& distance) {
  constexpr int step = near_limit;
  const auto within = [](int first, int steps, int before) { return first + std::clamp(steps - before, 0, step - 2); };
  switch (distance.nearness) {
    case Nearness::same_switch:
      return within(1, distance.steps, 1);
    case Nearness::same_root:
      return within(near_limit, distance.steps, within_a_node);
    case Nearness::same_node:
      return within(2 * near_limit, distance.steps, within_a_node);
    case Nearness::far:
      return within(4 * near_limit, distance.steps, across_nodes);
    case Nearness::unknown:
      break;
  }
  return worst_preference;
}

}  // namespace sluice::topology
