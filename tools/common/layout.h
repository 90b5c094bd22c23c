// SPDX-License-Identifier: Apache-2.0
// Where the files that belong to this tool lie: in the build tree and, laid out alike, in an installed one.
#pragma once

#include <optional>
#include <string>

namespace sluice::tools {

struct Layout {
  std::string tool;                          // this executable
  std::string library;                       // the libcufile.so.0 that this very process runs on
  std::optional<std::string> soft_gpu;       // our stand-in libcuda.so.1
  std::optional<std::string> witness;        // the library that `sluice run` sends along
  std::optional<std::string> configuration;  // the cufile.json for programs that have none
};

// Absolute paths of files that exist; nullopt where one is missing. Throws ToolError when this process runs on no
// libcufile at all, which only a damaged installation does.
Layout layout();

}  // namespace sluice::tools
