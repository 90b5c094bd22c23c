// SPDX-License-Identifier: Apache-2.0
// Results of measurements, as `gdsio --json`, `cufile_bench --json` and bench/compare.py write them, side by side.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace sluice::tools {

// What one file says of a row: speeds in GiB/s, one a measurement, and medians of times.
struct Row {
  std::vector<double> speeds;
  std::vector<double> p50_us;
  std::vector<double> p99_us;
  std::vector<double> ratios;  // of a comparison: ours by theirs, measured in turns
};

struct Results {
  std::string name;   // of the file
  std::string about;  // device, library: what the file says of itself
  std::map<std::string, Row> rows;
  std::vector<std::string> order;
};

// Throws ToolError where it cannot be read or holds none of these.
Results read_results(const std::string& file);

// Of a ratio: the geometric mean, and what the true one lies between with 95 % certainty.
struct Ratio {
  double mean = 0;
  double low = 0;
  double high = 0;
  bool has_bounds = false;  // needs two measurements of each, or two pairs
};
Ratio ratio_of(const std::vector<double>& after, const std::vector<double>& before);
Ratio ratio_of_pairs(const std::vector<double>& ratios);

// The first file is what the others are compared with.
std::string results_page(const std::vector<Results>& all);

}  // namespace sluice::tools
