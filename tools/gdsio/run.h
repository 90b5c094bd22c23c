// SPDX-License-Identifier: Apache-2.0
// One pass over all jobs, measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/latencies.h"
#include "gdsio/settings.h"

namespace sluice::tools {

struct JobResult {
  std::string name;
  unsigned threads = 0;
  unsigned depth = 1;
  std::uint64_t size = 0;   // of its files, as far as they take part
  std::uint64_t bytes = 0;  // moved
  Latencies latencies;
};

// What one path carried for one reason during the pass.
struct WayTaken {
  std::string path;
  std::string reason;
  std::string sentence;
  std::uint64_t ops = 0;
  std::uint64_t bytes = 0;
};

struct PassResult {
  double seconds = 0;
  JobResult total;
  std::vector<JobResult> jobs;
  std::vector<WayTaken> ways;  // of cuFile, when the library is Sluice's
  bool library_tells = false;  // whether it is
};

// Throws ToolError.
PassResult run_pass(const Settings& settings);

}  // namespace sluice::tools
