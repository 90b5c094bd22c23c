// SPDX-License-Identifier: Apache-2.0
// `sluice profile`: what this machine's link and folders do, measured, and which way is quickest.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::tools {

struct ProfileOptions {
  std::vector<std::string> folders;  // in which a file is written and read
  bool all = false;                  // and one of each file system with storage
  int gpu = 0;                       // whose memory takes part
  double seconds = 1;                // of each measurement
  double limit = 300;                // of all of it
  std::string size = "256M";         // of the files
  std::string output;                // "": stdout
  bool json = false;
};

// "sluice_profile": the version of its form; "link" of the GPU and "links" of all, "folders", the "drives" below them,
// and "best", which `sluice.profile` takes its values from. "left_out" says what could not be measured, or not in time;
// `has_failed`: a folder that was named is among it, for another reason than time. All that is named is looked at
// before anything is measured.
nlohmann::ordered_json measure_profile(const ProfileOptions& options, bool& has_failed);
int profile_command(const ProfileOptions& options);

// Of a file; throws ToolError where it is no such.
nlohmann::ordered_json read_profile(const std::string& file);

}  // namespace sluice::tools
