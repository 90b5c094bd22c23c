// SPDX-License-Identifier: Apache-2.0
// The statistics of a running process, once or again and again. What gds_stats and `sluice stats PID` do.
#pragma once

#include <cstdint>

namespace sluice::tools {

enum class ShowFormat : std::uint8_t { tables, known_lines, json };

struct ShowOptions {
  long long pid = 0;
  unsigned level = 0;            // 0: the one that the process counts at
  double interval = 0;           // seconds; 0: once
  unsigned long long count = 0;  // of intervals; 0: until the process ends
  ShowFormat format = ShowFormat::tables;
};

// Throws ToolError. The process takes no part in it.
void show_statistics(const ShowOptions& options);

// What --help of gds_stats says behind the flags.
extern const char* const show_lesson;

}  // namespace sluice::tools
