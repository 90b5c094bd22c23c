// The parts of gdscheck's report. Each prints on stdout; lines begin with a blank, titles stand between rules.
#pragma once

#include <string>
#include <string_view>

namespace sluice::tools {

// " =====", " TITLE:", " =====".
void print_title(std::string_view title);

// "GDS release version: ...", "libcufile version: ...".
void print_versions();

// ENVIRONMENT: the variables that the library looks at, as far as they are set.
void print_environment();
// DRIVER CONFIGURATION: which storage has a direct way.
void print_driver();
// CUFILE CONFIGURATION: the documented rows in the documented order.
void print_cufile_configuration();
// SLUICE CONFIGURATION: every key with its value, who said so and what comes of it; then what is wrong with the file.
void print_whole_configuration();
// GPU INFO and PLATFORM INFO. `failure` is why the driver does not open, "" when it does.
void print_gpus();
void print_platform(const std::string& failure);

// The mounts and the device of each, and where the PCI tree can be had.
void print_details();

// Registers the file as a program would. Throws ToolError when that fails.
void check_file(const std::string& path);

}  // namespace sluice::tools
