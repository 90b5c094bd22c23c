// SPDX-License-Identifier: Apache-2.0
// Files of static routes: distances that are given, not measured on the bus (miscellaneous.enable_static_routing). What
// cuFileExportPCIeTopology writes is such a file.
#pragma once

#include <string>
#include <string_view>

#include "topology/routing.h"

namespace sluice::topology {

// The file's pairs, or why it is refused as a whole: then nothing of it holds.
struct StaticRoutes {
  Preferences pairs;
  std::string error;  // "line 7: preference is 0x8000, not 0x1 to 0x7000"; "" where it is used
};
StaticRoutes parse_static_routes(std::string_view text);
// The same of a file; one that cannot be read is refused.
StaticRoutes read_static_routes(const std::string& path);

// Puts the file's pairs into the rules where the configuration wants it. The error, "" for none.
std::string apply_static_routes(const config::Config& config, const facts::Root& root, RoutingRules& rules);

}  // namespace sluice::topology
