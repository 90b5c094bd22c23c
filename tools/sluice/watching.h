// SPDX-License-Identifier: Apache-2.0
// The command lines of what looks at all processes: `sluice top`, `sluice exporter`, and `sluice stats` without one.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "sluice/commands.h"
#include "sluice/exporter/exporter.h"
#include "sluice/top/top.h"

namespace sluice::tools {

struct WatchingOptions {
  TopOptions top;
  ExporterOptions exporter;
  std::string prometheus;  // of `stats`: the file; "-" for stdout
  bool names = false;      // of `stats`
};

void declare_watching(CLI::App& app, CLI::App& stats, WatchingOptions& options, bool& json);

// Does what was asked for; false when nothing of it was. `command`: words that are no options' of ours. Throws
// ToolError.
bool run_watching(const CLI::App& app, const CLI::App& stats, WatchingOptions& options, Output output,
                  std::span<char* const> command);

}  // namespace sluice::tools
