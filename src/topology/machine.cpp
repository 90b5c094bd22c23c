// SPDX-License-Identifier: Apache-2.0
// From sysfs to the tree. Every link is resolved, so that a recorded tree reads like the machine.
#include "topology/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "facts/read.h"
#include "topology/pci.h"
#include "topology/words.h"

namespace sluice::topology {

namespace {

constexpr const char* all_devices = "/sys/bus/pci/devices/";
constexpr std::uint32_t nvidia = 0x10de;

std::string value_at(const facts::Root& root, const std::string& path) {
  return facts::read_value(root.at(path)).value_or("");
}

int number_at(const facts::Root& root, const std::string& path, int otherwise) {
  const std::string text = value_at(root, path);
  int number = otherwise;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() ? number : otherwise;
}

// "32.0 GT/s PCIe". Kernels tell a width of 255, or "Unknown", where a link is down.
double speed_at(const facts::Root& root, const std::string& path) {
  const std::string text = value_at(root, path);
  const double speed = std::strtod(text.c_str(), nullptr);
  return std::isfinite(speed) && speed > 0 && speed < 1000 ? speed : 0;
}

int width_at(const facts::Root& root, const std::string& path) {
  const int width = number_at(root, path, 0);
  return width > 0 && width <= 32 ? width : 0;
}

// Where a path leads, as a path of the tree.
std::string resolved(const facts::Root& root, const std::string& path) {
  const auto follow = [](const std::string& from) {
    const std::unique_ptr<char, decltype(&std::free)> to(::realpath(from.c_str(), nullptr), &std::free);
    return to ? std::string(to.get()) : std::string();
  };
  std::string full = follow(root.at(path));
  if (root.is_the_machine() || full.empty()) return full;
  const std::string top = follow(root.at("/"));
  return full.starts_with(top) ? full.substr(top.size()) : std::string();
}

// The address of the PCI device that a folder of /sys/class leads to; "" for what hangs on no bus.
std::string device_of(const facts::Root& root, const std::string& folder) {
  std::string path = resolved(root, folder + "/device");
  // A virtual function of a partition hangs below its PCI device.
  while (!path.empty() && !is_pci_address(facts::last_component(path))) path = facts::parent_path(path);
  return std::string(facts::last_component(path));
}

Place read_place(const facts::Root& root, const std::string& address) {
  const std::string folder = all_devices + address;
  Place place;
  place.address = address;
  place.node = number_at(root, folder + "/numa_node", -1);
  place.link.speed = speed_at(root, folder + "/current_link_speed");
  place.link.most_speed = speed_at(root, folder + "/max_link_speed");
  place.link.width = width_at(root, folder + "/current_link_width");
  place.link.most_width = width_at(root, folder + "/max_link_width");
  std::string path(facts::parent_path(resolved(root, folder)));
  while (is_pci_address(facts::last_component(path))) {
    place.above.emplace_back(facts::last_component(path));
    path = facts::parent_path(path);
  }
  const std::string_view last = facts::last_component(path);
  if (last.starts_with("pci")) place.root = last;
  return place;
}

// The extended capabilities of a bridge's configuration space, up to the one of access control.
Acs read_acs(const facts::Root& root, const std::string& address) {
  const std::string space = facts::read_text(root.at(all_devices + address + "/config")).value_or("");
  const auto word = [&space](std::size_t at) {
    const auto byte = [&space](std::size_t one) {
      return static_cast<unsigned>(static_cast<unsigned char>(space[one]));
    };
    return at + 1 < space.size() ? byte(at) | byte(at + 1) << 8 : 0U;
  };
  constexpr std::size_t first = 0x100;
  constexpr unsigned access_control = 0x000d;
  constexpr unsigned redirect = 0x0004 | 0x0008;  // of requests, of completions
  if (space.size() <= first) return Acs::unknown;
  std::size_t at = first;
  for (int steps = 0; steps < 64 && at >= first && at + 8 <= space.size(); ++steps) {
    if (word(at) == access_control) return (word(at + 6) & redirect) != 0 ? Acs::on : Acs::off;
    at = word(at + 2) >> 4;
  }
  return Acs::off;
}

std::string model_at(const facts::Root& root, const std::string& address) {
  const std::string text =
      facts::read_text(root.at("/proc/driver/nvidia/gpus/" + address + "/information")).value_or("");
  const std::size_t at = text.find("Model:");
  if (at == std::string::npos) return {};
  return std::string(facts::trimmed(std::string_view(text).substr(at + 6, text.find('\n', at) - at - 6)));
}

std::vector<Node> read_nodes(const facts::Root& root) {
  std::vector<Node> nodes;
  for (const std::string& name : facts::list_names(root.at("/sys/devices/system/node"))) {
    Node node;
    if (!name.starts_with("node")) continue;
    const auto parsed = std::from_chars(name.data() + 4, name.data() + name.size(), node.number);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    const std::string folder = "/sys/devices/system/node/" + name;
    node.processors = value_at(root, folder + "/cpulist");
    const std::string distances = value_at(root, folder + "/distance");
    for (const char* at = distances.data(); at < distances.data() + distances.size();) {
      int distance = 0;
      const auto one = std::from_chars(at, distances.data() + distances.size(), distance);
      if (one.ec == std::errc()) node.distances.push_back(distance);
      at = one.ec == std::errc() ? one.ptr : at + 1;
    }
    nodes.push_back(std::move(node));
  }
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.number < b.number; });
  return nodes;
}

Device* card_at(std::vector<Device>& devices, const std::string& address) {
  const auto found = std::find_if(devices.begin(), devices.end(), [&address](const Device& device) {
    return device.kind == Kind::nic && !address.empty() && device.place.address == address;
  });
  return found == devices.end() ? nullptr : &*found;
}

// Names of interfaces that belong to an RDMA device: those of its PCI device, and what its GIDs name: bonds, VLANs.
std::vector<std::string> interfaces_of(const facts::Root& root, const std::string& rdma) {
  const std::string folder = "/sys/class/infiniband/" + rdma;
  std::vector<std::string> names = facts::list_names(root.at(folder + "/device/net"));
  for (const std::string& port : facts::list_names(root.at(folder + "/ports"))) {
    const std::string table = std::string(folder).append("/ports/").append(port).append("/gid_attrs/ndevs");
    for (const std::string& entry : facts::list_names(root.at(table))) {
      const std::string name = value_at(root, std::string(table).append("/").append(entry));
      if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

void read_rdma(const facts::Root& root, std::vector<Device>& devices) {
  for (const std::string& rdma : facts::list_names(root.at("/sys/class/infiniband"))) {
    Device* card = card_at(devices, device_of(root, "/sys/class/infiniband/" + rdma));
    if (card == nullptr) {
      devices.emplace_back().kind = Kind::nic;
      card = &devices.back();
    }
    if (card->rdma.empty()) card->name = rdma;
    card->rdma.push_back(rdma);
    for (std::string& name : interfaces_of(root, rdma)) card->interfaces.push_back(std::move(name));
  }
}

void read_interfaces(const facts::Root& root, std::vector<Device>& devices, const Told& told) {
  for (const std::string& name : facts::list_names(root.at("/sys/class/net"))) {
    Device* const card = card_at(devices, device_of(root, "/sys/class/net/" + name));
    if (card == nullptr) continue;
    if (std::find(card->interfaces.begin(), card->interfaces.end(), name) == card->interfaces.end()) {
      card->interfaces.push_back(name);
    }
  }
  for (Device& device : devices) {
    if (device.kind != Kind::nic) continue;
    if (device.rdma.empty() && !device.interfaces.empty()) device.name = device.interfaces.front();
    for (const Address& address : told.addresses) {
      const auto& own = device.interfaces;
      if (std::find(own.begin(), own.end(), address.interface) != own.end()) device.addresses.push_back(address.text);
    }
  }
}

void read_controllers(const facts::Root& root, Machine& machine) {
  for (const std::string& name : facts::list_names(root.at("/sys/class/nvme"))) {
    const std::string folder = "/sys/class/nvme/" + name;
    const std::string transport = value_at(root, folder + "/transport");
    if (transport.empty() || transport == "pcie") {
      const std::string address = device_of(root, folder);
      for (Device& device : machine.devices) {
        if (device.kind == Kind::drive && device.place.address == address) device.name = name;
      }
      continue;
    }
    // "traddr=10.0.1.5,trsvcid=4420,src_addr=10.0.1.2,host_iface=eth1".
    const Words parts(value_at(root, folder + "/address"), ',');
    Remote remote{name, transport, parts.after("traddr="), {}};
    const std::string interface = parts.after("host_iface=");
    const std::string source = parts.after("src_addr=");
    for (const Device& device : machine.devices) {
      const auto has = [](const std::vector<std::string>& list, const std::string& one) {
        return !one.empty() && std::find(list.begin(), list.end(), one) != list.end();
      };
      if (has(device.interfaces, interface) || has(device.addresses, source)) remote.card = device.name;
    }
    machine.remotes.push_back(std::move(remote));
  }
}

void read_devices(const facts::Root& root, Machine& machine) {
  for (const PciDevice& found : read_pci(root)) {
    Device device;
    device.place = read_place(root, found.address);
    device.name = found.address;
    device.vendor = found.vendor;
    device.product = found.device;
    switch (found.kind) {
      case DeviceClass::gpu:
        if (found.vendor != nvidia) continue;
        device.kind = Kind::gpu;
        device.model = model_at(root, found.address);
        break;
      case DeviceClass::nvme:
        device.kind = Kind::drive;
        break;
      case DeviceClass::network:
        device.kind = Kind::nic;
        break;
    }
    for (const std::string& bridge : device.place.above) {
      if (machine.bridges.contains(bridge)) continue;
      machine.bridges[bridge] = {read_place(root, bridge), read_acs(root, bridge)};
    }
    machine.devices.push_back(std::move(device));
  }
}

// In a guest ports are made up where no two devices share one; without any bridge there is nothing to go by.
bool is_flat(const Machine& machine) {
  bool any_bridge = false;
  for (const Device& one : machine.devices) {
    any_bridge = any_bridge || !one.place.above.empty();
    if (!machine.guest || one.kind != Kind::gpu) continue;
    for (const Device& other : machine.devices) {
      if (&one != &other && !one.place.above.empty() && !other.place.above.empty() &&
          one.place.root == other.place.root && one.place.above.back() == other.place.above.back()) {
        return false;
      }
    }
  }
  return machine.guest || !any_bridge;
}

// A slot may be narrower than its card.
bool knows_both_ends(const Machine& machine, const Place& place) {
  if (place.above.empty()) return false;
  const auto parent = machine.bridges.find(place.above.front());
  return parent != machine.bridges.end() && parent->second.place.link.most_width > 0;
}

bool is_narrow(const Link& link) {
  return link.width > 0 && link.width < link.most_width;
}

bool is_slow(const Link& link) {
  return link.speed > 0 && link.speed < link.most_speed;
}

}  // namespace

Machine read_machine(const facts::Root& root, Told told) {
  Machine machine;
  machine.nodes = read_nodes(root);
  machine.board = value_at(root, "/sys/class/dmi/id/product_name");
  machine.guest = facts::read_text(root.at("/proc/cpuinfo")).value_or("").find(" hypervisor") != std::string::npos;
  read_devices(root, machine);
  read_rdma(root, machine.devices);
  read_interfaces(root, machine.devices, told);
  machine.told = std::move(told);
  std::stable_sort(machine.devices.begin(), machine.devices.end(), [](const Device& a, const Device& b) {
    return std::tuple(a.kind, a.place.address.empty(), a.place.address) <
           std::tuple(b.kind, b.place.address.empty(), b.place.address);
  });
  int gpus = 0;
  for (Device& device : machine.devices) {
    if (device.kind == Kind::gpu) device.name = "GPU" + std::to_string(gpus++);
  }
  read_controllers(root, machine);
  machine.flat = is_flat(machine);
  return machine;
}

std::vector<const Device*> devices_of(const Machine& machine, Kind kind) {
  std::vector<const Device*> found;
  for (const Device& device : machine.devices) {
    if (device.kind == kind) found.push_back(&device);
  }
  return found;
}

const Device* find_device(const Machine& machine, const std::string& name) {
  const auto found = std::find_if(machine.devices.begin(), machine.devices.end(), [&name](const Device& device) {
    return !name.empty() && (device.name == name || device.place.address == name);
  });
  return found == machine.devices.end() ? nullptr : &*found;
}

const Device* find_card(const Machine& machine, const std::string& name) {
  const auto names = [&name](const Device& device) {
    const auto has = [&name](const auto& list) { return std::find(list.begin(), list.end(), name) != list.end(); };
    return device.kind == Kind::nic && (has(device.rdma) || has(device.interfaces));
  };
  const auto found = std::find_if(machine.devices.begin(), machine.devices.end(), names);
  return found == machine.devices.end() ? nullptr : &*found;
}

const Peer* find_peer(const Machine& machine, const std::string& one, const std::string& other) {
  const auto both = [&](const Peer& peer) {
    return (peer.one == one && peer.other == other) || (peer.one == other && peer.other == one);
  };
  const auto found = std::find_if(machine.told.peers.begin(), machine.told.peers.end(), both);
  return found == machine.told.peers.end() ? nullptr : &*found;
}

Link best_of(const Machine& machine, const Place& place) {
  Link best = place.link;
  if (place.above.empty()) return best;
  const auto parent = machine.bridges.find(place.above.front());
  if (parent == machine.bridges.end()) return best;
  const Link& port = parent->second.place.link;
  if (port.most_width > 0) best.most_width = std::min(best.most_width, port.most_width);
  if (port.most_speed > 0) best.most_speed = std::min(best.most_speed, port.most_speed);
  return best;
}

bool is_upper_port(const Bridge& bridge) {
  return bridge.place.above.size() % 2 == 1;
}

bool trained_down(const Machine& machine, const Device& device) {
  const Link best = best_of(machine, device.place);
  return knows_both_ends(machine, device.place) && (is_narrow(best) || (device.kind != Kind::gpu && is_slow(best)));
}

bool trained_down(const Machine& machine, const Bridge& bridge) {
  const Link best = best_of(machine, bridge.place);
  // What a hypervisor tells of the links of ports is its invention.
  return !machine.guest && is_upper_port(bridge) && knows_both_ends(machine, bridge.place) &&
         (is_narrow(best) || is_slow(best));
}

double bandwidth_of(double speed, int width) {
  // 8 of 10 bits are data up to 5 GT/s, 128 of 130 up to 32, 242 of 256 bytes of a flit from 64 on.
  const double share = speed <= 5 ? 0.8 : speed <= 32 ? 128.0 / 130 : 242.0 / 256;
  return speed * width * share / 8;
}

}  // namespace sluice::topology
