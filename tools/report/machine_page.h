// SPDX-License-Identifier: Apache-2.0
// The report of a machine: what the doctor finds, what is there, and what was measured.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::tools {

// `profile` may be null.
std::string machine_page(const nlohmann::ordered_json& profile);

}  // namespace sluice::tools
