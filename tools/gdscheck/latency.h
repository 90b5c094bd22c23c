// SPDX-License-Identifier: Apache-2.0
// gdscheck -e latency: how long a small RDMA read of GPU memory takes, from each network card, by perftest's
// ib_read_lat.
#pragma once

#include <string>
#include <vector>

namespace sluice::tools {

struct LatencyOptions {
  int seconds = 30;                // for all pairs together
  int detail = 1;                  // 0: only the file; 1: a line a pair; 2: and what ib_read_lat says
  bool go_on = false;              // where a pair cannot be measured
  bool soft = false;               // the soft GPU is good enough: host memory is read
  std::vector<std::string> cards;  // "mlx5_0"; empty: all that are there
};

// Writes a JSON object to `file`. Throws ToolError where something is missing, or a pair fails and `go_on` is not set.
void export_latency(const std::string& file, const LatencyOptions& options);

}  // namespace sluice::tools
