// SPDX-License-Identifier: Apache-2.0
// Strict reading: a file that says something else than it means must not send bytes anywhere.
#include "topology/static_routes.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <variant>

#include "config/json.h"
#include "facts/read.h"
#include "topology/words.h"

namespace sluice::topology {

namespace {

using config::Json;

const Json* member_of(const Json& object, std::string_view name) {
  for (const config::JsonMember& member : object.members) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

// "0x1" as a text, or a number: 1.
std::optional<int> preference_in(const Json& value) {
  std::string_view text = value.text;
  if (value.kind != Json::Kind::text && value.kind != Json::Kind::number) return std::nullopt;
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, hex ? 16 : 10);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  if (number < 1 || number > worst_preference) return std::nullopt;
  return number;
}

std::string at_line(const Json& value, std::string_view what) {
  return fmt::format("line {}: {}", value.at.line, what);
}

// One row of "pairs"; what is wrong with it, "" for nothing.
std::string take_pair(const Json& row, Preferences& pairs) {
  if (row.kind != Json::Kind::object) return at_line(row, "a pair is an object");
  std::pair<std::string, std::string> key;
  for (auto [name, into] : {std::pair{"device", &key.first}, std::pair{"gpu", &key.second}}) {
    const Json* const value = member_of(row, name);
    if (value == nullptr || value->kind != Json::Kind::text || !is_pci_address(value->text)) {
      return at_line(value == nullptr ? row : *value, fmt::format("{} wants an address like 0000:3b:00.0", name));
    }
    *into = value->text;
  }
  const Json* const given = member_of(row, "preference");
  const std::optional<int> preference = given == nullptr ? std::nullopt : preference_in(*given);
  if (!preference) {
    return at_line(given == nullptr ? row : *given,
                   fmt::format("preference is {}, not 0x1 to 0x7000",
                               given == nullptr ? "missing" : config::printable(given->text)));
  }
  if (!pairs.emplace(key, *preference).second) return at_line(row, "this pair is given twice");
  return {};
}

}  // namespace

StaticRoutes parse_static_routes(std::string_view text) {
  StaticRoutes routes;
  const auto read = config::parse_json(text);
  if (const auto* error = std::get_if<config::JsonError>(&read)) {
    routes.error = fmt::format("line {}: {}", error->at.line, error->what);
    return routes;
  }
  const Json& top = std::get<Json>(read);
  const Json* const pairs = top.kind == Json::Kind::object ? member_of(top, "pairs") : nullptr;
  if (pairs == nullptr || pairs->kind != Json::Kind::array) {
    routes.error = "there is no list of \"pairs\"";
    return routes;
  }
  for (const Json& row : pairs->items) {
    routes.error = take_pair(row, routes.pairs);
    if (routes.error.empty()) continue;
    routes.pairs.clear();
    return routes;
  }
  return routes;
}

StaticRoutes read_static_routes(const std::string& path) {
  const std::optional<std::string> text = facts::read_text(path);
  return text ? parse_static_routes(*text) : StaticRoutes{{}, "it cannot be read"};
}

std::string apply_static_routes(const config::Config& config, const facts::Root& root, RoutingRules& rules) {
  if (!config.flag(config::key_at("miscellaneous.enable_static_routing"))) return {};
  const std::string& path = config.text(config::key_at("miscellaneous.static_routing_filepath"));
  StaticRoutes routes = read_static_routes(root.at(path));
  rules.fixed = std::move(routes.pairs);
  return routes.error.empty() ? std::string() : fmt::format("{} is not used: {}", path, routes.error);
}

}  // namespace sluice::topology
