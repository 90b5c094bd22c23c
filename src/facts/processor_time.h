// SPDX-License-Identifier: Apache-2.0
// What became of all processors' time since the machine started.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "facts/root.h"

namespace sluice::facts {

// In ticks, of which the kernel counts 100 a second for each processor.
struct ProcessorTime {
  std::uint64_t all = 0;
  std::uint64_t stolen = 0;  // wanted here, and given to others by the host of a virtual machine
};

// The first line of /proc/stat.
std::optional<ProcessorTime> processor_time_of(std::string_view line) noexcept;
std::optional<ProcessorTime> read_processor_time(const Root& root) noexcept;

}  // namespace sluice::facts
