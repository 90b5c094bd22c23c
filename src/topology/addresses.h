// SPDX-License-Identifier: Apache-2.0
// The lists of addresses in cufile.json: which one holds for a file, and what its addresses stand for on this machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "topology/machine.h"

namespace sluice::topology {

// The file systems that may have lists of their own, as cufile.json names them.
inline constexpr std::string_view routed_file_systems[] = {"lustre", "beegfs", "nfs", "weka", "gpfs"};

// That name of a mount's type: "nfs" of "nfs4"; "" for all others.
std::string_view routed_name(std::string_view mount_type);

// The addresses that hold, and the key that gives them.
struct AddressList {
  std::string key;    // "fs.lustre.mount_table"; "" where none is given
  std::string mount;  // its row, of a table
  std::vector<std::string> addresses;
};

// For a path on a file system ("lustre"): the table's deepest row above the path, else the file system's list, else
// properties.rdma_dev_addr_list.
AddressList addresses_for(const config::Config& config, std::string_view file_system, std::string_view path);

// What an address stands for. With an objection it cannot be used, and the objection says why.
struct Adapter {
  std::string address;
  const Device* card = nullptr;
  std::string objection;  // "no interface of this machine has it"
};
std::vector<Adapter> adapters_of(const Machine& machine, const std::vector<std::string>& addresses);

// Every list of the configuration, for people and for the doctor.
std::vector<AddressList> all_address_lists(const config::Config& config);

}  // namespace sluice::topology
