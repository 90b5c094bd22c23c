// SPDX-License-Identifier: Apache-2.0
// The parts of gdscheck's report. Each prints on stdout; lines begin with a blank, titles stand between rules.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/platform.h"

namespace sluice::tools {

// What this machine is, looked at once.
const doctor::Platform& platform();
// A drive has reached GPU memory in this process, or machine and configuration are ready for it.
bool p2pdma_is_used();
// Whether a key of the configuration has this value, spelt as in cufile.json.
bool setting_is(std::string_view key, std::string_view value);

// " =====", " TITLE:", " =====".
void print_title(std::string_view title);

// "GDS release version: ...", "libcufile version: ...".
void print_versions();

// ENVIRONMENT: the variables that the library looks at, as far as they are set.
void print_environment();
// DRIVER CONFIGURATION: which storage has a direct way.
void print_driver();
// CUFILE CONFIGURATION: the documented rows in the documented order.
void print_cufile_configuration();
// What it has of routing behind the row of this key, where that is configured: the order of policies, or the mount
// table of a file system, each mount with its dev_id.
void print_routing_behind(std::string_view key);
// Beneath it: addresses that cannot be used.
void print_unusable_addresses();
// SLUICE CONFIGURATION: what is wrong with the file; then every key with its value, who said so and what comes of it,
// where `all` is asked for.
enum class Keys { none, all };
void print_whole_configuration(Keys keys);
struct GpuRow {
  std::string name;
  std::size_t bar_mib = 0;  // 0 where it has none that is seen
  bool soft = false;
  std::string iommu;
  bool coherent = false;  // the CPU shares its memory by hardware, as the driver tells
};
std::vector<GpuRow> gpu_rows();

// GPU INFO and PLATFORM INFO. `failure` ends the sentence "Platform verification ..."; "" when all is well.

void print_gpus();
void print_platform(const std::string& failure);

// Why this platform has no GPU to work on: "failed: no GPU (...)"; "" where it has.
std::string verification();

// All of it as one JSON object.
void print_json(const std::string& failure);

// Each GPU with each drive and card: how near they are.
void print_pairs();
// gdscheck -e: the PCI tree, as cuFile exports it from sysfs, into a file.
void export_topology(const std::string& file);

// The mounts and the device of each, and where the PCI tree can be had.
void print_details();

// Registers the file as a program would. Throws ToolError when that fails.
void check_file(const std::string& path);

}  // namespace sluice::tools
