// SPDX-License-Identifier: Apache-2.0
// What the profile that sluice.profile names says of mounted file systems.
#pragma once

#include <string>
#include <vector>

namespace sluice::config {

// What was quickest there, of what is not configured; "": not known.
struct MeasuredMount {
  std::string mount;  // where it was mounted, and what it was then
  std::string file_system;
  std::vector<std::string> drives;  // sorted
  std::string copy;                 // a value of sluice.copy
  std::string disk_reads;           // of sluice.disk_reads
};

struct Measured {
  std::string date;     // as the profile has it; "" where it has none, or is no profile
  std::string why_not;  // a clause: why nothing of it is taken; "": it is
  std::vector<MeasuredMount> mounts;
  std::string file{};  // the profile
};

}  // namespace sluice::config
