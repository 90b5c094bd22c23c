// SPDX-License-Identifier: Apache-2.0
// The tree as lines.
#pragma once

#include <string>

#include "topology/routing.h"

namespace sluice::topology_view {

// Tree, NVLinks, and how near each device is to each GPU.
std::string as_text(const topology::Machine& machine);
// The route of each device and GPU, by device; what the lists of addresses in the configuration come to.
std::string routes_as_text(const topology::Machine& machine, const config::Config& config,
                           const topology::RoutingRules& rules);

// The routes between one file and each GPU: of a file system with lists of addresses by its cards, of a local drive by
// the drive. `path` is absolute, `mountinfo` is the text that tells where it lies.
std::string routes_to_file_as_text(const topology::Machine& machine, const config::Config& config,
                                   const topology::RoutingRules& rules, const std::string& mountinfo,
                                   const std::string& path);

}  // namespace sluice::topology_view
