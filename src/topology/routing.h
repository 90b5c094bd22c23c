// SPDX-License-Identifier: Apache-2.0
// Dynamic routing: which way bytes go between a card or drive and a GPU that share no part of the PCI tree. Pure
// functions of the tree, the order of policies and, where there is one, a file of static routes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "topology/addresses.h"
#include "topology/distance.h"
#include "topology/machine.h"

namespace sluice::topology {

// As properties.rdma_dynamic_routing_order names them.
enum class Policy : std::uint8_t {
  gpu_mem_nvlinks,  // by the memory of a GPU near the card, which NVLinks lead on from
  gpu_mem,          // by the memory of a GPU near the card, and on over PCIe
  sys_mem,          // by host memory on the card's node
  p2p,              // straight, across the host
};
const char* name_of(Policy policy);
std::optional<Policy> policy_named(std::string_view name);

// Numbers of a file of static routes, by (device, GPU): both by address on the bus.
using Preferences = std::map<std::pair<std::string, std::string>, int>;

struct RoutingRules {
  bool on = false;  // properties.rdma_dynamic_routing
  std::vector<Policy> order = {Policy::gpu_mem_nvlinks, Policy::gpu_mem, Policy::sys_mem, Policy::p2p};
  int nearest = 1;  // properties.rdma_topN_ranks: so many ranks of cards are used
  Preferences fixed;
};
// The keys of cufile.json; the file of static routes is read by static_routes.h.
RoutingRules routing_rules(const config::Config& config);

// A policy of the order that came before the one taken.
struct Passed {
  Policy policy{};
  std::string why;
};

struct Route {
  std::string device;
  std::string gpu;
  Distance distance;
  int preference = worst_preference;
  std::optional<Policy> policy;  // none: straight, there is nothing to route
  std::string stage;             // "GPU4", "host memory of node 1"; "" for none
  std::vector<Passed> passed;
  std::string why;  // a clause for people
};

// For one pair, as if routing were on.
Route route_between(const Machine& machine, const Device& device, const Device& gpu, const RoutingRules& rules);

// For a mount: its adapters by their rank for this GPU, and the way from the first.
struct MountRoute {
  AddressList list;
  std::vector<Adapter> adapters;          // of the list, those that cannot be used included
  std::vector<const Device*> candidates;  // usable cards of the best `nearest` ranks, the best first
  std::optional<Route> route;             // none where no card can be used
  std::string why_none;
};
MountRoute route_for(const Machine& machine, const AddressList& list, const Device& gpu, const RoutingRules& rules);

// 1 to 0x7000: of the file where it has the pair, else of the distance.
int preference_between(const Machine& machine, const Device& device, const Device& gpu, const RoutingRules& rules);

}  // namespace sluice::topology
