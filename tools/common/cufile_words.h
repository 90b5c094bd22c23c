// SPDX-License-Identifier: Apache-2.0
// What cuFile answers, in words, and its driver, open as long as a tool needs it. For tools that run on any
// libcufile.so.0: nothing here is Sluice's own.
#pragma once

#include <string>

namespace sluice::tools {

// The sentence for a cuFile code and the code: "an argument has an invalid value (5022)".
std::string cufile_words(int code);

// The words for a negated cause: an errno or a cuFile code.
std::string cause_words(long long negated);

// What helps against a negated cause that has little to do with the file: a full file system, a limit that is reached.
// nullptr for any other.
const char* remedy_for_cause(long long negated);

// A note on stderr when the soft GPU stands in for one; `tool` begins the line. True when it does.
bool note_soft_gpu(const char* tool);

// cuFile's driver. Throws ToolError after a line on stderr that scripts know.
class OpenDriver {
 public:
  OpenDriver();
  OpenDriver(const OpenDriver&) = delete;
  OpenDriver& operator=(const OpenDriver&) = delete;
  ~OpenDriver();
};

}  // namespace sluice::tools
