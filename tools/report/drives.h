// SPDX-License-Identifier: Apache-2.0
// What a drive gives by itself: without a file system, without the library, into host memory.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "report/measure.h"

namespace sluice::tools {

// "read_gib_per_s": 1 MiB each, of eight threads; "read_4k_us": the median of single reads. Nothing is written. Where
// it cannot be read, "why".
nlohmann::ordered_json measure_drive(const std::string& drive, double seconds, const Budget& budget);

}  // namespace sluice::tools
