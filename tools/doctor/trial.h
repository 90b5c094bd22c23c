// SPDX-License-Identifier: Apache-2.0
// What a trial with real bytes came to. The tool makes it (it needs the library and a GPU); judging it is here.
#pragma once

#include <cstdint>
#include <string>

#include "doctor/report.h"

namespace sluice::doctor {

struct Trial {
  std::string file;
  std::string device;  // "NVIDIA H200", "the soft GPU"
  std::string path;    // "posix", "p2pdma"
  std::string reason;  // a sentence
  std::string remedy;
  std::string error;  // why there was no transfer; "" where there was one
  std::uint64_t bytes = 0;
  std::int64_t wrong = -1;  // the first byte that is not as the file has it; -1 for none
};

void judge_trial(const Trial& trial, Report& report);

// The same as lines for a recorded tree's /sluice/probes.
std::string trial_lines(const Trial& trial);

}  // namespace sluice::doctor
