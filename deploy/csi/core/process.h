// SPDX-License-Identifier: Apache-2.0
// Runs a program, with a limit of time, and takes what it prints.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace sluice::csi {

struct ProgramResult {
  int status = -1;  // its exit status; 128 + N when a signal ended it
  bool timed_out = false;
  std::string output;  // of both streams, at most 1 MiB
};

// The first word is looked for in PATH. What cannot be started has status 127.
ProgramResult run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit);

// The last line of an output that is not empty: where programs say what went wrong.
std::string last_line(const std::string& output);

}  // namespace sluice::csi
