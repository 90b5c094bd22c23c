// SPDX-License-Identifier: Apache-2.0
// The tree as it is shown: by NUMA node, with the ports left out that only lead on.
#pragma once

#include <string>
#include <vector>

#include "topology/machine.h"

namespace sluice::topology_view {

// A host bridge, a switch, a port that several share, or a device at the end.
struct Twig {
  std::string root;                          // of a host bridge: "pci0000:16"
  const topology::Bridge* bridge = nullptr;  // of a switch its upper port
  const topology::Device* device = nullptr;
  std::vector<Twig> twigs;
};

struct Branch {
  int node = -1;  // -1: not known
  std::string processors;
  std::vector<Twig> twigs;
};

// By node; devices on no bus are not among them.
std::vector<Branch> grow(const topology::Machine& machine);

std::size_t leaves_of(const Twig& twig);
std::size_t depth_of(const Twig& twig);  // 1 for a device

// "Gen5 x16"; "Gen3 x8 of Gen5 x16" where the link runs at less than both ends can do; "" where it is not told.
std::string link_words(const topology::Machine& machine, const topology::Device& device);
std::string link_words(const topology::Machine& machine, const topology::Bridge& bridge);
// What is known of a device beside its name and address: model, interfaces, addresses.
std::string about(const topology::Device& device);

// How the GPUs are joined: "18 NVLinks between each two of 8 GPUs", "" without any.
struct Joined {
  std::string words;
  bool all_alike = false;  // each two of all GPUs, with as many links
};
Joined joined_of(const topology::Machine& machine);

// "DGX H100: 2 NUMA nodes, 8 GPUs, 9 drives, 9 network cards".
std::string title_of(const topology::Machine& machine);

}  // namespace sluice::topology_view
