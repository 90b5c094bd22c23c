// SPDX-License-Identifier: Apache-2.0
// Growing and pruning.
#include "topology_view/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace sluice::topology_view {
namespace {

using topology::Bridge;
using topology::Device;
using topology::Kind;
using topology::Link;
using topology::Machine;

Twig& twig_for(std::vector<Twig>& twigs, const Bridge* bridge) {
  const auto found =
      std::find_if(twigs.begin(), twigs.end(), [bridge](const Twig& twig) { return twig.bridge == bridge; });
  if (found != twigs.end()) return *found;
  Twig& made = twigs.emplace_back();
  made.bridge = bridge;
  return made;
}

Twig& twig_for(std::vector<Twig>& twigs, const std::string& root) {
  const auto found = std::find_if(twigs.begin(), twigs.end(), [&root](const Twig& twig) { return twig.root == root; });
  if (found != twigs.end()) return *found;
  Twig& made = twigs.emplace_back();
  made.root = root;
  return made;
}

// Ports that lead to one thing only are left out; switches stay.
void prune(std::vector<Twig>& twigs) {
  for (Twig& twig : twigs) {
    prune(twig.twigs);
    const bool port = twig.bridge != nullptr && !is_upper_port(*twig.bridge);
    if (port && twig.twigs.size() == 1) {
      Twig only = std::move(twig.twigs.front());
      twig = std::move(only);
    }
  }
}

int generation_of(double speed) {
  constexpr double speeds[] = {2.5, 5, 8, 16, 32, 64};
  return static_cast<int>(std::upper_bound(std::begin(speeds), std::end(speeds), speed) - std::begin(speeds));
}

std::string one_link(double speed, int width) {
  return fmt::format("Gen{} x{}", generation_of(speed), width);
}

std::string words_of_link(const Link& link, double speed, bool down) {
  if (link.width == 0 || speed == 0) return {};
  const std::string now = one_link(speed, link.width);
  return down ? fmt::format("{} of {}", now, one_link(link.most_speed, link.most_width)) : now;
}

std::string joined_words(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? std::string_view() : separator).append(word);
  return text;
}

std::string counted(std::size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

}  // namespace

std::vector<Branch> grow(const Machine& machine) {
  std::map<int, Branch> branches;
  for (const Device& device : machine.devices) {
    if (device.place.address.empty()) continue;
    Branch& branch = branches[device.place.node];
    std::vector<Twig>* twigs = &twig_for(branch.twigs, device.place.root).twigs;
    const auto& above = device.place.above;
    for (auto address = above.rbegin(); address != above.rend(); ++address) {
      const auto found = machine.bridges.find(*address);
      if (found != machine.bridges.end()) twigs = &twig_for(*twigs, &found->second).twigs;
    }
    twigs->emplace_back().device = &device;
  }
  std::vector<Branch> grown;
  for (auto& [node, branch] : branches) {
    branch.node = node;
    for (const topology::Node& one : machine.nodes) {
      if (one.number == node) branch.processors = one.processors;
    }
    std::sort(branch.twigs.begin(), branch.twigs.end(), [](const Twig& a, const Twig& b) { return a.root < b.root; });
    for (Twig& root : branch.twigs) {
      prune(root.twigs);
      const bool alone = root.twigs.size() == 1 && root.twigs.front().device != nullptr;
      if (!alone) continue;
      Twig only = std::move(root.twigs.front());
      root = std::move(only);
    }
    grown.push_back(std::move(branch));
  }
  // Where it is not known, at the end.
  std::stable_partition(grown.begin(), grown.end(), [](const Branch& branch) { return branch.node >= 0; });
  return grown;
}

std::size_t leaves_of(const Twig& twig) {
  if (twig.device != nullptr) return 1;
  std::size_t count = 0;
  for (const Twig& below : twig.twigs) count += leaves_of(below);
  return std::max<std::size_t>(1, count);
}

std::size_t depth_of(const Twig& twig) {
  std::size_t deepest = 0;
  for (const Twig& below : twig.twigs) deepest = std::max(deepest, depth_of(below));
  return deepest + 1;
}

std::string link_words(const Machine& machine, const Device& device) {
  const Link best = best_of(machine, device.place);
  // A GPU at rest is shown with what it does at work.
  const double speed = device.kind == Kind::gpu ? std::max(best.speed, best.most_speed) : best.speed;
  return words_of_link(best, speed, trained_down(machine, device));
}

std::string link_words(const Machine& machine, const Bridge& bridge) {
  if (machine.guest || !is_upper_port(bridge)) return {};
  const Link best = best_of(machine, bridge.place);
  return words_of_link(best, best.speed, trained_down(machine, bridge));
}

std::string about(const Device& device) {
  if (device.kind != Kind::nic) return device.model;
  std::vector<std::string> words;
  for (const std::string& name : device.interfaces) {
    if (name != device.name) words.push_back(name);
  }
  words.insert(words.end(), device.addresses.begin(), device.addresses.end());
  return joined_words(words, " ");
}

Joined joined_of(const Machine& machine) {
  std::map<int, std::vector<const topology::Peer*>> by_links;
  for (const topology::Peer& peer : machine.told.peers) {
    if (peer.nvlink) by_links[peer.links].push_back(&peer);
  }
  if (by_links.empty()) return {};
  const std::size_t gpus = devices_of(machine, Kind::gpu).size();
  Joined joined;
  joined.all_alike = by_links.size() == 1 && by_links.begin()->second.size() == gpus * (gpus - 1) / 2;
  if (joined.all_alike) {
    const int links = by_links.begin()->first;
    joined.words = fmt::format("{} between each two of {} GPUs",
                               links == 0 ? "NVLink" : counted(static_cast<std::size_t>(links), "NVLink"), gpus);
    return joined;
  }
  std::vector<std::string> parts;
  for (const auto& [links, peers] : by_links) {
    std::vector<std::string> pairs;
    for (const topology::Peer* const peer : peers) {
      const Device* const one = find_device(machine, peer->one);
      const Device* const other = find_device(machine, peer->other);
      pairs.push_back((one == nullptr ? peer->one : one->name) + "-" + (other == nullptr ? peer->other : other->name));
    }
    parts.push_back(fmt::format("{}: {}", links == 0 ? "NVLink" : counted(static_cast<std::size_t>(links), "NVLink"),
                                joined_words(pairs, " ")));
  }
  joined.words = joined_words(parts, "; ");
  return joined;
}

std::string title_of(const Machine& machine) {
  std::string text = machine.board.empty() ? "This machine" : machine.board;
  text += machine.guest ? " (a guest)" : "";
  text += ": " + counted(std::max<std::size_t>(1, machine.nodes.size()), "NUMA node");
  text += ", " + counted(devices_of(machine, Kind::gpu).size(), "GPU");
  text += ", " + counted(devices_of(machine, Kind::drive).size(), "NVMe drive");
  return text + ", " + counted(devices_of(machine, Kind::nic).size(), "network card");
}

}  // namespace sluice::topology_view
