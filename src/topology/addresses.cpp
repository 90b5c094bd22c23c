// SPDX-License-Identifier: Apache-2.0
// Looking up rows, and addresses on interfaces.
#include "topology/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

namespace sluice::topology {

namespace {

constexpr const char* list_of_all = "properties.rdma_dev_addr_list";

std::string list_key(std::string_view file_system) {
  return fmt::format("fs.{}.rdma_dev_addr_list", file_system);
}

std::string table_key(std::string_view file_system) {
  return fmt::format("fs.{}.mount_table", file_system);
}

// By components: "/mnt/a" lies above "/mnt/a/b", not above "/mnt/ab".
bool lies_above(std::string_view mount, std::string_view path) {
  while (mount.size() > 1 && mount.ends_with('/')) mount.remove_suffix(1);
  if (mount == "/") return true;
  return path.starts_with(mount) && (path.size() == mount.size() || path[mount.size()] == '/');
}

const Device* holder_of(const Machine& machine, const std::string& address, std::string& interface) {
  for (const Address& one : machine.told.addresses) {
    if (one.text == address) interface = one.interface;
  }
  for (const Device& device : machine.devices) {
    const auto& own = device.addresses;
    if (std::find(own.begin(), own.end(), address) != own.end()) return &device;
  }
  return nullptr;
}

Adapter adapter_of(const Machine& machine, const std::string& address) {
  Adapter adapter{address, nullptr, {}};
  in_addr parsed{};
  if (::inet_pton(AF_INET, address.c_str(), &parsed) != 1) {
    adapter.objection = "it is no IPv4 address";
    return adapter;
  }
  std::string interface;
  const Device* const card = holder_of(machine, address, interface);
  if (interface.empty()) {
    adapter.objection = "no interface of this machine has it";
  } else if (card == nullptr || card->rdma.empty()) {
    adapter.objection = fmt::format("the interface {} has it, and no RDMA device stands behind that", interface);
  } else {
    adapter.card = card;
  }
  return adapter;
}

}  // namespace

std::string_view routed_name(std::string_view mount_type) {
  if (mount_type == "lustre" || mount_type == "beegfs" || mount_type == "gpfs") return mount_type;
  if (mount_type == "nfs" || mount_type == "nfs4") return "nfs";
  if (mount_type == "fhgfs" || mount_type == "beegfs_nodev") return "beegfs";
  if (mount_type == "wekafs") return "weka";
  if (mount_type == "mmfs") return "gpfs";
  return {};
}

AddressList addresses_for(const config::Config& config, std::string_view file_system, std::string_view path) {
  if (!file_system.empty()) {
    const config::MountAddresses* deepest = nullptr;
    for (const config::MountAddresses& row : config.mounts(*config::find_key(table_key(file_system)))) {
      if (!lies_above(row.mount, path)) continue;
      if (deepest == nullptr || row.mount.size() > deepest->mount.size()) deepest = &row;
    }
    if (deepest != nullptr) return {table_key(file_system), deepest->mount, deepest->addresses};
    const auto& list = config.texts(*config::find_key(list_key(file_system)));
    if (!list.empty()) return {list_key(file_system), {}, list};
  }
  const auto& all = config.texts(*config::find_key(list_of_all));
  return all.empty() ? AddressList{} : AddressList{list_of_all, {}, all};
}

std::vector<Adapter> adapters_of(const Machine& machine, const std::vector<std::string>& addresses) {
  std::vector<Adapter> adapters;
  adapters.reserve(addresses.size());
  for (const std::string& address : addresses) adapters.push_back(adapter_of(machine, address));
  return adapters;
}

std::vector<AddressList> all_address_lists(const config::Config& config) {
  std::vector<AddressList> lists;
  const auto& all = config.texts(*config::find_key(list_of_all));
  if (!all.empty()) lists.push_back({list_of_all, {}, all});
  for (const std::string_view name : routed_file_systems) {
    const auto& list = config.texts(*config::find_key(list_key(name)));
    if (!list.empty()) lists.push_back({list_key(name), {}, list});
    for (const config::MountAddresses& row : config.mounts(*config::find_key(table_key(name)))) {
      lists.push_back({table_key(name), row.mount, row.addresses});
    }
  }
  return lists;
}

}  // namespace sluice::topology
