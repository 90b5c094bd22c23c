// SPDX-License-Identifier: Apache-2.0
// A failure for programs that asked for JSON: one object on stdout, whose keys all tools have.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::tools {

inline void print_error_json(const std::string& error, const std::string& remedy) {
  nlohmann::ordered_json json;
  json["error"] = error;
  json["remedy"] = remedy;
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace sluice::tools
