// SPDX-License-Identifier: Apache-2.0
// The tree as JSON: what cuFileExportPCIeTopology, `gdscheck -e` and `sluice topology --json` write, and what files of
// static routes are made of (docs/reference/topology.md).
#pragma once

#include <string>

#include "topology/machine.h"
#include "topology/routing.h"

namespace sluice::topology {

// A comment line, then one JSON object.
std::string to_json(const Machine& machine);
// The object alone, with the route of each pair.
std::string to_json(const Machine& machine, const RoutingRules& rules);

// Replaces the file. Throws base::Failure (CU_FILE_INVALID_VALUE) when it cannot be written.
void write_file(const std::string& path, const std::string& content);

}  // namespace sluice::topology
