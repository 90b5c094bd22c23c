// SPDX-License-Identifier: Apache-2.0
// Machines drawn by hand: two sockets, a switch on each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topology/machine.h"

namespace sluice::topology {

inline Device drawn_device(Kind kind, std::string name, std::string address, int node, std::vector<std::string> above) {
  Device device;
  device.kind = kind;
  device.name = std::move(name);
  device.place.address = std::move(address);
  device.place.node = node;
  device.place.root = node == 0 ? "pci0000:00" : "pci0000:80";
  device.place.above = std::move(above);
  device.place.link = {32, 32, 16, 16};
  return device;
}

inline void draw_bridge(Machine& machine, const std::string& address, int node, std::vector<std::string> above) {
  Bridge bridge;
  bridge.place = drawn_device(Kind::gpu, "", address, node, std::move(above)).place;
  machine.bridges[address] = bridge;
}

// GPU0, GPU1 and card0 below the switch of socket 0; GPU2, GPU3 below that of socket 1; card1 at socket 1, drive0 at
// socket 0, both at ports of their own.
inline Machine drawn_machine() {
  Machine machine;
  machine.nodes = {{0, "0-15", {10, 21}}, {1, "16-31", {21, 10}}};
  for (const auto& [node, bus] : {std::pair{0, std::string("0")}, std::pair{1, std::string("8")}}) {
    const std::string port = "0000:" + bus + "0:01.0";
    const std::string upper = "0000:" + bus + "1:00.0";
    draw_bridge(machine, port, node, {});
    draw_bridge(machine, upper, node, {port});
    draw_bridge(machine, "0000:" + bus + "0:02.0", node, {});
    for (int lower = 0; lower < 3; ++lower) {
      draw_bridge(machine, "0000:" + bus + "2:0" + std::to_string(lower) + ".0", node, {upper, port});
    }
  }
  const auto below = [](const std::string& bus, int lower) {
    return std::vector<std::string>{"0000:" + bus + "2:0" + std::to_string(lower) + ".0", "0000:" + bus + "1:00.0",
                                    "0000:" + bus + "0:01.0"};
  };
  machine.devices = {drawn_device(Kind::gpu, "GPU0", "0000:03:00.0", 0, below("0", 0)),
                     drawn_device(Kind::gpu, "GPU1", "0000:04:00.0", 0, below("0", 1)),
                     drawn_device(Kind::gpu, "GPU2", "0000:83:00.0", 1, below("8", 0)),
                     drawn_device(Kind::gpu, "GPU3", "0000:84:00.0", 1, below("8", 1)),
                     drawn_device(Kind::drive, "drive0", "0000:06:00.0", 0, {"0000:00:02.0"}),
                     drawn_device(Kind::nic, "card0", "0000:05:00.0", 0, below("0", 2)),
                     drawn_device(Kind::nic, "card1", "0000:86:00.0", 1, {"0000:80:02.0"})};
  return machine;
}

inline Device& device_named(Machine& machine, const std::string& name) {
  for (Device& device : machine.devices) {
    if (device.name == name) return device;
  }
  throw name;
}

inline void join(Machine& machine, const std::string& one, const std::string& other, int links) {
  machine.told.peers_known = true;
  machine.told.peers.push_back(
      {device_named(machine, one).place.address, device_named(machine, other).place.address, true, links > 0, links});
}

}  // namespace sluice::topology
