// SPDX-License-Identifier: Apache-2.0
// How results are told.
#pragma once

#include <string>
#include <vector>

#include "gdsio/run.h"
#include "gdsio/settings.h"

namespace sluice::tools {

// The line that scripts know: "IoType: READ XferType: GPUD Threads: 1 DataSetSize: ...".
std::string result_line(const Settings& settings, const JobResult& result, double seconds);

// On stdout: the line, and what --latency, -J and --path ask for.
void print_pass(const Settings& settings, const PassResult& result);

// What the run stood on, for JSON.
struct Grounds {
  std::string library;
  std::string device;  // "" when no GPU takes part
  bool soft = false;
};

// On stdout, one object for all passes; `settings` of each.
void print_json(const std::vector<std::pair<Settings, PassResult>>& passes, const Grounds& grounds);

}  // namespace sluice::tools
