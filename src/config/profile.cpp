// SPDX-License-Identifier: Apache-2.0
#include "config/profile.h"

#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "config/json.h"

namespace sluice::config {

namespace {

// Keys whose best value depends on the machine, and changes no answer.
constexpr std::array measurable{std::string_view("sluice.copy"), std::string_view("sluice.disk_reads")};

const Json* member(const Json& object, std::string_view name) {
  for (const JsonMember& each : object.members) {
    if (each.name == name) return &each.value;
  }
  return nullptr;
}

void note_of_profile(Config& config, LogLevel level, const std::string& file, const std::string& what) {
  config.notes.push_back({level, printable("sluice.profile " + file + ": " + what)});
}

}  // namespace

void apply_profile(Config& config) {
  const std::string file = config.text(key_at("sluice.profile"));
  if (file.empty()) return;
  const auto read = read_configuration_file(file);
  const auto* const text = std::get_if<FileText>(&read);
  if (text == nullptr) {
    const auto* const unusable = std::get_if<UnusableFile>(&read);
    note_of_profile(config, LogLevel::warn, file, unusable != nullptr ? unusable->why : "there is no such file");
    return;
  }
  const auto parsed = parse_json(text->text);
  const auto* const whole = std::get_if<Json>(&parsed);
  const Json* const best = whole != nullptr ? member(*whole, "best") : nullptr;
  if (best == nullptr || member(*whole, "sluice_profile") == nullptr) {
    note_of_profile(config, LogLevel::warn, file, "it is no profile: make one with `sluice profile -o FILE DIR`");
    return;
  }
  for (const std::string_view name : measurable) {
    const Json* const value = member(*best, name);
    const std::size_t key = *find_key(std::string(name));
    if (value == nullptr || config.setting(key).origin != Origin::built_in) continue;
    auto taken = read_value(keys[key], *value);
    if (auto* const good = std::get_if<Value>(&taken)) {
      config.set(key, std::move(*good), Origin::measured);
      note_of_profile(config, LogLevel::info, file, std::string(name) + " is as measured: " + value->text);
    } else {
      note_of_profile(config, LogLevel::warn, file, std::string(name) + " " + std::get<Objection>(taken).text);
    }
  }
}

}  // namespace sluice::config
