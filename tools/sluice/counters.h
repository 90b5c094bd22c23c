// SPDX-License-Identifier: Apache-2.0
// What `sluice stats` tells at the end of a program.
#pragma once

#include <string>

#include "sluice/commands.h"
#include "sluice/testimony.h"

namespace sluice::tools {

// On stderr, since stdout is the program's, or into a file: reads, writes and bytes by path and reason. `absence` is
// why our library was in none of its processes; empty where it was.
void print_counters(const RunOptions& options, const Testimony& testimony, const std::string& absence);

}  // namespace sluice::tools
