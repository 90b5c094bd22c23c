// SPDX-License-Identifier: Apache-2.0
// The order is gone through; each policy applies or says why it does not.
#include "topology/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sluice::topology {

namespace {

constexpr std::array<const char*, 4> policy_names = {"GPU_MEM_NVLINKS", "GPU_MEM", "SYS_MEM", "P2P"};

// What a policy comes to: the stage, or why it does not apply.
struct Answer {
  bool applies = false;
  std::string stage;
  std::string words;
};

bool is_near(int preference) {
  return preference < near_limit;
}

std::string links_of(const Peer& peer) {
  if (peer.links == 1) return "an NVLink leads";
  return peer.links > 1 ? fmt::format("{} NVLinks lead", peer.links) : "NVLinks lead";
}

// GPUs near the device other than the target, the nearest first.
std::vector<const Device*> near_gpus(const Machine& machine, const Device& device, const Device& target,
                                     const RoutingRules& rules) {
  std::vector<const Device*> found;
  for (const Device* const gpu : devices_of(machine, Kind::gpu)) {
    if (gpu != &target && is_near(preference_between(machine, device, *gpu, rules))) found.push_back(gpu);
  }
  std::stable_sort(found.begin(), found.end(), [&](const Device* a, const Device* b) {
    return preference_between(machine, device, *a, rules) < preference_between(machine, device, *b, rules);
  });
  return found;
}

std::string no_gpu_near(const Machine& machine, const Device& device) {
  return (machine.flat ? "the bus does not tell which GPU is near " : "no GPU is near ") + device.name;
}

// Of GPUs that are equally near, the one with the most links, then the first on the bus.
Answer by_nvlinks(const Machine& machine, const Device& device, const Device& target, const RoutingRules& rules) {
  const std::vector<const Device*> near = near_gpus(machine, device, target, rules);
  if (near.empty()) return {false, {}, no_gpu_near(machine, device)};
  const Device* best = nullptr;
  const Peer* way = nullptr;
  for (const Device* const gpu : near) {
    const Peer* const peer = find_peer(machine, gpu->place.address, target.place.address);
    if (peer == nullptr || !peer->nvlink || !peer->access) continue;
    const bool nearer = best == nullptr || preference_between(machine, device, *gpu, rules) <
                                               preference_between(machine, device, *best, rules);
    const bool as_near = best != nullptr && preference_between(machine, device, *gpu, rules) ==
                                                preference_between(machine, device, *best, rules);
    if (!nearer && !(as_near && peer->links > way->links)) continue;
    best = gpu;
    way = peer;
  }
  if (best != nullptr) {
    return {true, best->name,
            fmt::format("by the memory of {}: it is near {}, and {} to {}", best->name, device.name, links_of(*way),
                        target.name)};
  }
  const std::string first = near.front()->name;
  if (!machine.told.peers_known) {
    return {false, {}, fmt::format("whether NVLinks lead from {} to {} is not known", first, target.name)};
  }
  return {false,
          {},
          near.size() == 1 ? fmt::format("no NVLink leads from {} to {}", first, target.name)
                           : fmt::format("no NVLink leads from a GPU near {} to {}", device.name, target.name)};
}

Answer by_gpu_memory(const Machine& machine, const Device& device, const Device& target, const RoutingRules& rules) {
  const std::vector<const Device*> near = near_gpus(machine, device, target, rules);
  if (near.empty()) return {false, {}, no_gpu_near(machine, device)};
  for (const Device* const gpu : near) {
    const Peer* const peer = find_peer(machine, gpu->place.address, target.place.address);
    if (peer == nullptr || !peer->access) continue;
    return {true, gpu->name,
            fmt::format("by the memory of {}: it is near {}, and {} reaches its memory", gpu->name, device.name,
                        target.name)};
  }
  const std::string first = near.front()->name;
  if (!machine.told.peers_known) {
    return {false, {}, fmt::format("whether {} reaches the memory of {} is not known", target.name, first)};
  }
  return {false, {}, fmt::format("{} does not reach the memory of {}", target.name, first)};
}

Answer by_host_memory(const Device& device) {
  const int node = device.place.node;
  const std::string stage = node < 0 ? "host memory" : fmt::format("host memory of node {}", node);
  return {true, stage, fmt::format("by {}{}", stage, node < 0 ? "" : fmt::format(", where {} is", device.name))};
}

Answer straight_across(const Device& device, const Device& target, const Distance& distance) {
  return {true, {}, fmt::format("straight from {} to {}: {}", device.name, target.name, words_of(distance.nearness))};
}

Answer ask(Policy policy, const Machine& machine, const Device& device, const Device& target, const Distance& distance,
           const RoutingRules& rules) {
  switch (policy) {
    case Policy::gpu_mem_nvlinks:
      return by_nvlinks(machine, device, target, rules);
    case Policy::gpu_mem:
      return by_gpu_memory(machine, device, target, rules);
    case Policy::sys_mem:
      return by_host_memory(device);
    case Policy::p2p:
      break;
  }
  return straight_across(device, target, distance);
}

// Why nothing has to be routed; "" where something has.
std::string why_straight(const Machine& machine, const Device& device, const Device& gpu, const Route& route,
                         bool is_fixed) {
  if (is_near(route.preference)) {
    const Bridge* const shared = shared_bridge(machine, device, gpu);
    if (shared == nullptr)
      return fmt::format("straight: the file of static routes has {} near {}", device.name, gpu.name);
    return fmt::format("straight: {} and {} are both below {}{}", device.name, gpu.name, shared->place.address,
                       goes_up(machine, device, gpu) ? ", where access control sends the bytes up to the host" : "");
  }
  if (!is_fixed && route.distance.nearness == Nearness::unknown) {
    return fmt::format("straight: the bus does not tell how near {} and {} are", device.name, gpu.name);
  }
  if (!is_fixed && machine.flat && route.distance.nearness == Nearness::same_node) {
    return fmt::format("straight: {} and {} are on one node, and the bus does not tell whether they share a switch",
                       device.name, gpu.name);
  }
  return {};
}

}  // namespace

const char* name_of(Policy policy) {
  return policy_names[static_cast<std::size_t>(policy)];
}

std::optional<Policy> policy_named(std::string_view name) {
  const auto found = std::find(policy_names.begin(), policy_names.end(), name);
  if (found == policy_names.end()) return std::nullopt;
  return static_cast<Policy>(found - policy_names.begin());
}

RoutingRules routing_rules(const config::Config& config) {
  RoutingRules rules;
  rules.on = config.flag(config::key_at("properties.rdma_dynamic_routing"));
  rules.order.clear();
  for (const std::string& name : config.texts(config::key_at("properties.rdma_dynamic_routing_order"))) {
    if (const std::optional<Policy> policy = policy_named(name)) rules.order.push_back(*policy);
  }
  rules.nearest = static_cast<int>(config.number(config::key_at("properties.rdma_topN_ranks")));
  return rules;
}

int preference_between(const Machine& machine, const Device& device, const Device& gpu, const RoutingRules& rules) {
  const auto fixed = rules.fixed.find({device.place.address, gpu.place.address});
  return fixed != rules.fixed.end() ? fixed->second : preference_of(distance_between(machine, device, gpu));
}

Route route_between(const Machine& machine, const Device& device, const Device& gpu, const RoutingRules& rules) {
  Route route;
  route.device = device.name;
  route.gpu = gpu.name;
  route.distance = distance_between(machine, device, gpu);
  route.preference = preference_between(machine, device, gpu, rules);
  const bool is_fixed = rules.fixed.contains({device.place.address, gpu.place.address});
  route.why = why_straight(machine, device, gpu, route, is_fixed);
  if (!route.why.empty()) return route;
  for (const Policy policy : rules.order) {
    Answer answer = ask(policy, machine, device, gpu, route.distance, rules);
    if (!answer.applies) {
      route.passed.push_back({policy, std::move(answer.words)});
      continue;
    }
    route.policy = policy;
    route.stage = std::move(answer.stage);
    route.why = std::move(answer.words);
    return route;
  }
  route.why = fmt::format("straight from {} to {}: no policy of the order applies", device.name, gpu.name);
  return route;
}

MountRoute route_for(const Machine& machine, const AddressList& list, const Device& gpu, const RoutingRules& rules) {
  MountRoute mount{list, adapters_of(machine, list.addresses), {}, std::nullopt, {}};
  for (const Adapter& adapter : mount.adapters) {
    const bool known =
        std::find(mount.candidates.begin(), mount.candidates.end(), adapter.card) != mount.candidates.end();
    if (adapter.card != nullptr && !known) mount.candidates.push_back(adapter.card);
  }
  const auto preference = [&](const Device* card) { return preference_between(machine, *card, gpu, rules); };
  std::stable_sort(mount.candidates.begin(), mount.candidates.end(),
                   [&](const Device* a, const Device* b) { return preference(a) < preference(b); });
  // Cards that are equally near have one rank.
  int ranks = 0;
  int last = 0;
  const auto beyond = std::find_if(mount.candidates.begin(), mount.candidates.end(), [&](const Device* card) {
    if (ranks == 0 || preference(card) != last) ++ranks;
    last = preference(card);
    return ranks > std::max(1, rules.nearest);
  });
  mount.candidates.erase(beyond, mount.candidates.end());
  if (mount.candidates.empty()) {
    mount.why_none = list.addresses.empty() ? "no list gives addresses of cards" : "none of the addresses can be used";
    return mount;
  }
  mount.route = route_between(machine, *mount.candidates.front(), gpu, rules);
  return mount;
}

}  // namespace sluice::topology
