// SPDX-License-Identifier: Apache-2.0
// `sluice report` and `sluice profile`: their command lines, and what they do.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "report/profile.h"
#include "sluice/commands.h"

namespace sluice::tools {

struct ReportOptions {
  std::vector<std::string> files;  // of results
  std::string output = "sluice-report.html";
  std::string profile;
  bool machine = false;
  std::uint64_t most_events = 8'000'000;
  RunOptions run;
  ProfileOptions measured;
};

void declare_reporting(CLI::App& app, ReportOptions& options, bool& json);
// Does what was asked for; nothing when none of it was. `command` is what stands behind two dashes.
// Answers the exit status, or -1.
int run_reporting(const CLI::App& app, ReportOptions& options, const std::vector<std::string>& command, bool json);

}  // namespace sluice::tools
