// SPDX-License-Identifier: Apache-2.0
// `sluice profile`: what this machine's link and folders do, measured, and which way is quickest.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::tools {

struct ProfileOptions {
  std::vector<std::string> folders;  // in which a file is written and read; none: the link alone
  int gpu = 0;
  double seconds = 1;         // of each measurement
  std::string size = "256M";  // of the files
  std::string output;         // "": stdout
  bool json = false;
};

// "sluice_profile": the version of its form; "link", "folders" and "best", which `sluice.profile` takes its values
// from.
nlohmann::ordered_json measure_profile(const ProfileOptions& options);
int profile_command(const ProfileOptions& options);

// Of a file; throws ToolError where it is no such.
nlohmann::ordered_json read_profile(const std::string& file);

}  // namespace sluice::tools
