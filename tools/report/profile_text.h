// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::tools {

// What was measured (report/profile.h), a line for each link, folder and drive.
std::string profile_text(const nlohmann::ordered_json& profile);

}  // namespace sluice::tools
