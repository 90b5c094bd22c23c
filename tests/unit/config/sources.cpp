// SPDX-License-Identifier: Apache-2.0
// The product asks by plain function pointers, so what they lead to is global.
#include "config/sources.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "config/load.h"

namespace sluice::config {

namespace {

std::map<std::string, std::string>& variables() {
  static std::map<std::string, std::string> all;
  return all;
}

std::vector<std::string>& lines() {
  static std::vector<std::string> all;
  return all;
}

}  // namespace

Pretended::Pretended() {
  variables().clear();
  lines().clear();
  std::string pattern = testing::TempDir() + "sluice-config-XXXXXX";
  if (::mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
  EXPECT_FALSE(folder_.empty());
}

Pretended::~Pretended() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Sources Pretended::sources() const {
  return {[](const char* name) -> const char* {
            const auto found = variables().find(name);
            return found == variables().end() ? nullptr : found->second.c_str();
          },
          folder_ + "/cufile.json", [](const std::string& line) { lines().push_back(line); }};
}

void Pretended::set(const std::string& variable, const std::string& value) {
  variables()[variable] = value;
}

void Pretended::unset(const std::string& variable) {
  variables().erase(variable);
}

std::string Pretended::write(const std::string& text) const {
  return write("cufile.json", text);
}

std::string Pretended::write(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  return folder_ + "/" + name;
}

const std::vector<std::string>& Pretended::said() const {
  return lines();
}

Config config_of(const std::string& text) {
  Config config;
  apply_text("cufile.json", text, config);
  return config;
}

std::vector<std::string> notes_at(const Config& config, LogLevel level) {
  std::vector<std::string> texts;
  for (const Note& note : config.notes) {
    if (note.level == level) texts.push_back(note.text);
  }
  return texts;
}

std::size_t key_named(std::string_view name) {
  const auto key = find_key(name);
  EXPECT_TRUE(key.has_value()) << name;
  return key.value_or(0);
}

std::string json_of(const Config& config, std::string_view key) {
  return to_json(config.setting(key_named(key)).value);
}

}  // namespace sluice::config
