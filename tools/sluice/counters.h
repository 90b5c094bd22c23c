// SPDX-License-Identifier: Apache-2.0
// What `sluice stats` tells at the end of a program.
#pragma once

#include "sluice/commands.h"
#include "sluice/testimony.h"

namespace sluice::tools {

// On stderr, since stdout is the program's: reads, writes and bytes by path and reason.
void print_counters(const RunOptions& options, const Testimony& testimony);

}  // namespace sluice::tools
