// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace sluice::tools {

// All of a file that the user has named. Throws ToolError with the system's words and this remedy where it cannot be
// read.
std::string read_file(const std::string& name, const std::string& remedy);

}  // namespace sluice::tools
