// SPDX-License-Identifier: Apache-2.0
// gdsio's command line and its configuration files.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "gdsio/settings.h"

namespace sluice::tools {

// nullopt: --help or --version was asked for, and is printed. Throws ToolError with status 2.
std::optional<Settings> read_command_line(std::span<char*> words);

// Reads a configuration file. Throws ToolError.
Settings read_configuration(const std::string& path);

// What --help prints.
const char* gdsio_help();

}  // namespace sluice::tools
