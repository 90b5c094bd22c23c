// SPDX-License-Identifier: Apache-2.0
// A row a line, so that people can edit it.
#include "topology/export.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/failure.h"
#include "base/unique_fd.h"
#include "config/json.h"

namespace sluice::topology {

namespace {

using config::quoted;

std::string list_of(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) list += (list.size() > 1 ? ", " : "") + quoted(text);
  return list + "]";
}

std::string list_of(const std::vector<int>& numbers) {
  std::string list = "[";
  for (const int number : numbers) list += (list.size() > 1 ? ", " : "") + std::to_string(number);
  return list + "]";
}

std::string link_of(const Link& link) {
  return fmt::format("{{\"speed\": {}, \"most_speed\": {}, \"width\": {}, \"most_width\": {}}}", link.speed,
                     link.most_speed, link.width, link.most_width);
}

std::string place_of(const Place& place) {
  return fmt::format("\"address\": {}, \"numa_node\": {}, \"root\": {}, \"above\": {}, \"link\": {}",
                     quoted(place.address), place.node, quoted(place.root), list_of(place.above), link_of(place.link));
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::gpu:
      return "gpu";
    case Kind::drive:
      return "nvme";
    case Kind::nic:
      return "network";
  }
  return "";
}

const char* acs_name(Acs acs) {
  if (acs == Acs::unknown) return "unknown";
  return acs == Acs::on ? "on" : "off";
}

// A member whose value is a list, a row a line.
std::string rows_of(std::string_view name, const std::vector<std::string>& rows) {
  std::string text = fmt::format("  \"{}\": [", name);
  for (std::size_t i = 0; i < rows.size(); ++i) text += (i == 0 ? "\n    " : ",\n    ") + rows[i];
  return text + (rows.empty() ? "]" : "\n  ]");
}

std::vector<std::string> node_rows(const Machine& machine) {
  std::vector<std::string> rows;
  for (const Node& node : machine.nodes) {
    rows.push_back(fmt::format("{{\"node\": {}, \"processors\": {}, \"distances\": {}}}", node.number,
                               quoted(node.processors), list_of(node.distances)));
  }
  return rows;
}

std::vector<std::string> bridge_rows(const Machine& machine) {
  std::vector<std::string> rows;
  for (const auto& [address, bridge] : machine.bridges) {
    rows.push_back(fmt::format("{{{}, \"acs\": \"{}\", \"trained_down\": {}}}", place_of(bridge.place),
                               acs_name(bridge.acs), trained_down(machine, bridge)));
  }
  return rows;
}

std::vector<std::string> device_rows(const Machine& machine) {
  std::vector<std::string> rows;
  for (const Device& device : machine.devices) {
    std::string row = fmt::format(
        "{{\"name\": {}, \"kind\": \"{}\", \"model\": {}, {}, \"vendor\": \"0x{:04x}\", \"device\": \"0x{:04x}\", "
        "\"trained_down\": {}",
        quoted(device.name), kind_name(device.kind), quoted(device.model), place_of(device.place), device.vendor,
        device.product, trained_down(machine, device));
    if (device.kind == Kind::nic) {
      row += fmt::format(", \"rdma\": {}, \"interfaces\": {}, \"addresses\": {}", list_of(device.rdma),
                         list_of(device.interfaces), list_of(device.addresses));
    }
    rows.push_back(row + "}");
  }
  return rows;
}

std::vector<std::string> remote_rows(const Machine& machine) {
  std::vector<std::string> rows;
  for (const Remote& remote : machine.remotes) {
    rows.push_back(fmt::format("{{\"name\": {}, \"transport\": {}, \"address\": {}, \"card\": {}}}",
                               quoted(remote.name), quoted(remote.transport), quoted(remote.address),
                               quoted(remote.card)));
  }
  return rows;
}

std::vector<std::string> peer_rows(const Machine& machine) {
  std::vector<std::string> rows;
  for (const Peer& peer : machine.told.peers) {
    rows.push_back(fmt::format("{{\"one\": {}, \"other\": {}, \"access\": {}, \"nvlink\": {}, \"links\": {}}}",
                               quoted(peer.one), quoted(peer.other), peer.access, peer.nvlink, peer.links));
  }
  return rows;
}

std::string passed_of(const Route& route) {
  std::string list = "[";
  for (const Passed& passed : route.passed) {
    list += fmt::format("{}{{\"policy\": \"{}\", \"why\": {}}}", list.size() > 1 ? ", " : "", name_of(passed.policy),
                        quoted(passed.why));
  }
  return list + "]";
}

// Devices that are on no bus have no distance, and are left out.
std::vector<std::string> pair_rows(const Machine& machine, const RoutingRules* rules) {
  std::vector<std::string> rows;
  for (const Device& device : machine.devices) {
    if (device.kind == Kind::gpu || device.place.address.empty()) continue;
    for (const Device* const gpu : devices_of(machine, Kind::gpu)) {
      const Distance distance = distance_between(machine, device, *gpu);
      const int preference =
          rules == nullptr ? preference_of(distance) : preference_between(machine, device, *gpu, *rules);
      std::string row = fmt::format(
          "{{\"device\": {}, \"gpu\": {}, \"names\": {}, \"distance\": \"{}\", \"steps\": {}, \"gbps\": {:.1f}, "
          "\"preference\": \"0x{:x}\"",
          quoted(device.place.address), quoted(gpu->place.address), list_of(std::vector{device.name, gpu->name}),
          words_of(distance.nearness), distance.steps, distance.bandwidth, preference);
      if (rules != nullptr) {
        const Route route = route_between(machine, device, *gpu, *rules);
        row += fmt::format(", \"policy\": {}, \"stage\": {}, \"why\": {}, \"passed\": {}",
                           route.policy ? quoted(name_of(*route.policy)) : "null", quoted(route.stage),
                           quoted(route.why), passed_of(route));
      }
      rows.push_back(row + "}");
    }
  }
  return rows;
}

std::string object_of(const Machine& machine, const RoutingRules* rules) {
  std::string text = "{\n  \"format\": 1,\n";
  text += fmt::format("  \"board\": {},\n  \"guest\": {},\n  \"flat\": {},\n", quoted(machine.board), machine.guest,
                      machine.flat);
  if (rules != nullptr) text += fmt::format("  \"dynamic_routing\": {},\n", rules->on);
  const std::vector<std::string> parts = {
      rows_of("nodes", node_rows(machine)),     rows_of("bridges", bridge_rows(machine)),
      rows_of("devices", device_rows(machine)), rows_of("remotes", remote_rows(machine)),
      rows_of("peers", peer_rows(machine)),     rows_of("pairs", pair_rows(machine, rules))};
  for (const std::string& part : parts) text += part + (&part == &parts.back() ? "\n}\n" : ",\n");
  return text;
}

}  // namespace

std::string to_json(const Machine& machine) {
  return "// Topology file for cuFile.\n" + object_of(machine, nullptr);
}

std::string to_json(const Machine& machine, const RoutingRules& rules) {
  return object_of(machine, &rules);
}

void write_file(const std::string& path, const std::string& content) {
  const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  std::size_t written = 0;
  while (fd && written < content.size()) {
    const ssize_t now = ::write(fd.get(), content.data() + written, content.size() - written);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) break;
    written += static_cast<std::size_t>(now);
  }
  if (!fd || written != content.size()) {
    const int error = errno;
    throw base::Failure(CU_FILE_INVALID_VALUE, fmt::format("cannot write {}: {}", path, std::strerror(error)), error);
  }
}

}  // namespace sluice::topology
