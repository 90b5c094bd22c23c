// SPDX-License-Identifier: Apache-2.0
// What storage was read for this process, for tests that want it left alone.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace sluice::support {

// As far as the system tells.
inline std::optional<std::uint64_t> bytes_read_from_storage() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  while (counters >> name >> value) {
    if (name == "read_bytes:") return value;
  }
  return std::nullopt;
}

// Where this program touched pages, of its code perhaps, that had left memory: storage was read for them, too.
inline long major_faults() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_majflt;
}

}  // namespace sluice::support
