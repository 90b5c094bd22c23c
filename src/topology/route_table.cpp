// SPDX-License-Identifier: Apache-2.0
// One lock: who asks is explaining a file, or has just registered it.
#include "topology/route_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "topology/addresses.h"
#include "topology/static_routes.h"

namespace sluice::topology {

namespace {

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return small;
}

// "nvme0" of "nvme0n1".
std::string controller_of(const std::string& disk) {
  constexpr std::string_view begin = "nvme";
  if (!disk.starts_with(begin)) return {};
  return disk.substr(0, disk.find_first_not_of("0123456789", begin.size()));
}

// A drive on the bus, or the card that leads to one behind a network.
const Device* end_of(const Machine& machine, const std::string& controller) {
  if (const Device* const drive = find_device(machine, controller)) return drive;
  const auto remote = std::find_if(machine.remotes.begin(), machine.remotes.end(),
                                   [&](const Remote& one) { return one.name == controller; });
  return remote == machine.remotes.end() || remote->card.empty() ? nullptr : find_card(machine, remote->card);
}

std::string name_of_list(const AddressList& list) {
  return list.mount.empty() ? list.key : list.key + " " + list.mount;
}

}  // namespace

std::string words_of(const FileRoute& found) {
  if (!found.route) return fmt::format("dynamic routing: none, {}", found.why_none);
  const Route& route = *found.route;
  std::string text = fmt::format("dynamic routing: {}", route.policy ? name_of(*route.policy) : "no policy");
  text += route.stage.empty() ? ", no stage" : ", stage " + route.stage;
  text += fmt::format(" ({}; from {})", route.why, found.from);
  for (const Passed& passed : route.passed) text += fmt::format("; not {}: {}", name_of(passed.policy), passed.why);
  return text;
}

RouteTable::RouteTable(std::shared_ptr<const config::Config> config, facts::Root root, Teller teller)
    : config_(std::move(config)), root_(std::move(root)), teller_(teller), rules_(routing_rules(*config_)) {}

FileRoute RouteTable::route_of(const Machine& machine, const config::Config& config, const RoutingRules& rules,
                               const Storage& storage, std::string_view gpu) {
  FileRoute found;
  const Device* const target = find_device(machine, in_small_letters(gpu));
  if (target == nullptr || target->kind != Kind::gpu) {
    found.why_none = "this GPU is not among those on the bus";
    return found;
  }
  if (const std::string_view name = routed_name(storage.file_system); !name.empty()) {
    const AddressList list = addresses_for(config, name, storage.mount);
    found.from = name_of_list(list);
    MountRoute way = route_for(machine, list, *target, rules);
    found.route = std::move(way.route);
    found.why_none = std::move(way.why_none);
    return found;
  }
  // Drives of an array lie where they lie: the first of them stands for all.
  for (const std::string& disk : storage.disks) {
    const std::string controller = controller_of(disk);
    const Device* const end = controller.empty() ? nullptr : end_of(machine, controller);
    if (end == nullptr) continue;
    found.from =
        storage.disks.size() == 1 ? controller : fmt::format("{}, one of {} drives", controller, storage.disks.size());
    found.route = route_between(machine, *end, *target, rules);
    return found;
  }
  found.why_none = "it is for NVMe drives, and for lustre, beegfs, nfs, weka and gpfs";
  return found;
}

std::shared_ptr<const FileRoute> RouteTable::find(const Storage& storage, std::string_view gpu) {
  if (!rules_.on) return nullptr;
  std::string place = storage.file_system + "\n" + storage.mount;
  for (const std::string& disk : storage.disks) place += "\n" + disk;
  const std::lock_guard lock(mutex_);
  if (machine_ == nullptr) {
    complaint_ = apply_static_routes(*config_, root_, rules_);
    machine_ = std::make_unique<const Machine>(read_machine(root_, teller_()));
  }
  auto& known = known_[{std::move(place), in_small_letters(gpu)}];
  if (known == nullptr) {
    known = std::make_shared<const FileRoute>(route_of(*machine_, *config_, rules_, storage, gpu));
  }
  return known;
}

}  // namespace sluice::topology
