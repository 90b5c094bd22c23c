// SPDX-License-Identifier: Apache-2.0
// What nvidia-fs.ko has counted, of all processes.
#pragma once

#include <string>

namespace sluice::tools {

enum class ModuleFormat { text, json };

// Of this machine, or of a recorded one. Throws ToolError where the module is not loaded.
void show_module(const std::string& root, ModuleFormat format);

}  // namespace sluice::tools
