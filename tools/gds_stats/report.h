// SPDX-License-Identifier: Apache-2.0
// A sample, for people, for scripts that know gds_stats, and for programs.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "gds_stats/process.h"
#include "gds_stats/sample.h"

namespace sluice::tools {

// Level 1: reads, writes, ways, calls. Level 2 adds sizes, level 3 devices.
std::string text_of(const Sample& sample, unsigned level);

// The same in the lines of gds_stats.
std::string known_text_of(const Sample& sample, unsigned level);

nlohmann::ordered_json json_of(const Sample& sample, unsigned level);

// {"sluice_transfers_total": [{"direction": "read", ..., "value": 1}], ...}: the names are those of metrics.h.
nlohmann::ordered_json metrics_json(const Sample& sample, unsigned level);

// A line of rates, and what stands above such lines.
std::string rates_heading();
std::string rates_line(const Sample& sample);

// Names as sluice_stats_operation counts them: "handle_register".
const char* operation_name(std::size_t operation);

// Where a size histogram's class begins, in bytes; the last one has no end.
std::uint64_t size_begin(std::size_t place);

// 32 hexadecimal digits.
std::string uuid_text(const std::array<unsigned char, 16>& uuid);

}  // namespace sluice::tools
