// SPDX-License-Identifier: Apache-2.0
// What `sluice stats` tells at the end of a program.
#pragma once

#include <string>

#include "sluice/commands.h"
#include "sluice/testimony.h"

namespace sluice::tools {

// Reads, writes and bytes by path and reason. `absence` is why our library was in none of its processes; empty where it
// was.
std::string counters_text(const RunOptions& options, const Testimony& testimony, const std::string& absence);

}  // namespace sluice::tools
