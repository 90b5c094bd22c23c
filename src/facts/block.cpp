// SPDX-License-Identifier: Apache-2.0
// From a device number to the disk, its driver and what it stands on.
//
// sysfs is walked by its own links, which are relative: /sys/dev/block/259:2 -> ../../devices/.../nvme0n1/nvme0n1p2.
// "<link>/.." is the folder of the whole disk, because the kernel follows the link before it goes up.
#include "facts/block.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "facts/read.h"

namespace sluice::facts {

namespace {

// Stacks deeper or wider than these are cut short: `members` is for people, and a walk over sysfs must end.
constexpr int deepest_stack = 8;
constexpr std::size_t most_members = 64;

struct Disk {
  std::string name;    // "nvme0n1"
  std::string folder;  // where its files can be read
};

// `entry` is a link below /sys that leads to a disk or a partition.
std::optional<Disk> disk_behind(const std::string& entry) {
  const std::optional<std::string> target = read_link(entry);
  if (!target) return std::nullopt;
  if (exists(entry + "/partition")) return Disk{std::string(last_component(parent_path(*target))), entry + "/.."};
  return Disk{std::string(last_component(*target)), entry};
}

bool starts_with_and_digit(std::string_view text, std::string_view prefix) {
  return text.size() > prefix.size() && text.substr(0, prefix.size()) == prefix && text[prefix.size()] >= '0' &&
         text[prefix.size()] <= '9';
}

struct VirtualDriver {
  std::string_view prefix;
  std::string_view driver;
};

// Devices of the kernel's own making have no "device/driver" link: their name tells.
constexpr std::array virtual_drivers = {
    VirtualDriver{"dm-", "device-mapper"}, VirtualDriver{"md", "md"},      VirtualDriver{"loop", "loop"},
    VirtualDriver{"zram", "zram"},         VirtualDriver{"ram", "brd"},    VirtualDriver{"nbd", "nbd"},
    VirtualDriver{"rbd", "rbd"},           VirtualDriver{"drbd", "drbd"},  VirtualDriver{"bcache", "bcache"},
    VirtualDriver{"nullb", "null_blk"},    VirtualDriver{"ublkb", "ublk"}, VirtualDriver{"nvme", "nvme"},
};

std::string driver_of(const Disk& disk) {
  // An array can be called md_data or md127, a mapping always dm-N; the folder is there either way.
  if (exists(disk.folder + "/md")) return "md";
  if (exists(disk.folder + "/dm")) return "device-mapper";
  for (const VirtualDriver& known : virtual_drivers) {
    if (starts_with_and_digit(disk.name, known.prefix)) return std::string(known.driver);
  }
  return std::string(last_component(read_link(disk.folder + "/device/driver").value_or("")));
}

// "nvme3n1" seen through controller 7 is "nvme3c7n1".
std::string hidden_path_name(const std::string& head, const std::string& controller) {
  const std::size_t split = head.find('n', 4);
  if (split == std::string::npos) return {};
  return head.substr(0, split) + 'c' + controller.substr(4) + head.substr(split);
}

// How the drive is reached. A disk with one controller says so itself; the head of a multipath drive hangs on its
// subsystem, whose controllers say it, one each.
std::string nvme_transport(const Disk& disk) {
  const std::string parent = disk.folder + "/device";
  if (const std::optional<std::string> own = read_value(parent + "/transport")) return *own;

  std::vector<std::string> with_path;
  std::vector<std::string> all;
  for (const std::string& name : list_names(parent)) {
    if (!starts_with_and_digit(name, "nvme")) continue;
    std::string controller = parent;
    controller.append("/").append(name);
    const std::optional<std::string> transport = read_value(controller + "/transport");
    if (!transport) continue;
    all.push_back(*transport);
    if (exists(controller + "/" + hidden_path_name(disk.name, name))) with_path.push_back(*transport);
  }
  // Not every controller of a subsystem leads to every drive in it.
  std::vector<std::string>& transports = with_path.empty() ? all : with_path;
  std::sort(transports.begin(), transports.end());
  transports.erase(std::unique(transports.begin(), transports.end()), transports.end());
  std::string joined;
  for (const std::string& transport : transports) {
    if (!joined.empty()) joined += '+';
    joined += transport;
  }
  return joined;
}

bool names_tcp(const std::string& transport) {
  return transport.find("tcp") != std::string::npos;
}

void add_members(const Disk& disk, const Root& root, int depth, BlockFacts& facts) {
  if (depth > deepest_stack) return;
  for (const std::string& name : list_names(disk.folder + "/slaves")) {
    if (facts.members.size() >= most_members) return;
    // Below a slave there may be a partition: what counts is its disk.
    const std::optional<Disk> member = disk_behind(root.at("/sys/class/block/" + name));
    if (!member) {
      facts.members.push_back(name);
    } else if (list_names(member->folder + "/slaves").empty()) {
      facts.members.push_back(member->name);
      if (driver_of(*member) == "nvme" && names_tcp(nvme_transport(*member))) facts.over_tcp = true;
    } else {
      add_members(*member, root, depth + 1, facts);
    }
  }
}

BlockFacts block_behind(const std::string& entry, const Root& root) {
  BlockFacts facts;
  const std::optional<Disk> disk = disk_behind(entry);
  if (!disk) return facts;

  facts.name = disk->name;
  facts.driver = driver_of(*disk);
  if (facts.driver == "nvme") facts.transport = nvme_transport(*disk);
  if (const std::optional<std::string> size = read_value(disk->folder + "/queue/logical_block_size")) {
    std::from_chars(size->data(), size->data() + size->size(), facts.logical_block);
  }
  facts.over_tcp = names_tcp(facts.transport);
  add_members(*disk, root, 1, facts);
  std::sort(facts.members.begin(), facts.members.end());
  facts.members.erase(std::unique(facts.members.begin(), facts.members.end()), facts.members.end());
  return facts;
}

}  // namespace

BlockFacts block_with_number(dev_t device, const Root& root) {
  return block_behind(root.at("/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device))),
                      root);
}

BlockFacts block_of_source(std::string_view source, const Root& root) {
  constexpr std::string_view devices = "/dev/";
  if (source.substr(0, devices.size()) != devices) return {};
  // /dev/mapper/data is a link to ../dm-3. Reading a link in /dev asks no driver; the device itself is left alone.
  std::string name(source.substr(devices.size()));
  if (const std::optional<std::string> target = read_link(root.at(std::string(source)))) {
    name = last_component(*target);
  }
  // sysfs writes the slash of names like cciss/c0d0 as an exclamation mark.
  std::replace(name.begin(), name.end(), '/', '!');
  return block_behind(root.at("/sys/class/block/" + name), root);
}

}  // namespace sluice::facts
