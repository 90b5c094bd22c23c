// SPDX-License-Identifier: Apache-2.0
#include "config/profile.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "base/machine_number.h"
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

std::string text_of(const Json& object, std::string_view name) {
  const Json* const value = member(object, name);
  return value != nullptr && value->kind == Json::Kind::text ? printable(value->text) : "";
}

void note_of_profile(Config& config, LogLevel level, const std::string& file, const std::string& what) {
  config.notes.push_back({level, printable("sluice.profile " + file + ": " + what)});
}

void leave_alone(Config& config, const std::string& file, const std::string& why) {
  config.measured.why_not = printable(why);
  note_of_profile(config, LogLevel::warn, file, "nothing of it is taken: " + why);
}

// Of one file system, where it is not configured; "" else.
std::string measured_value(const Config& config, const Json& folder, std::string_view name, std::string_view key_name) {
  const Json* const value = member(folder, name);
  const std::size_t key = *find_key(std::string(key_name));
  const Origin origin = config.setting(key).origin;
  if (value == nullptr || (origin != Origin::built_in && origin != Origin::measured)) return "";
  auto taken = read_value(keys[key], *value);
  const auto* const good = std::get_if<Value>(&taken);
  return good != nullptr ? std::get<std::string>(*good) : "";
}

std::vector<MeasuredMount> mounts_of(const Config& config, const Json& profile) {
  std::vector<MeasuredMount> mounts;
  const Json* const folders = member(profile, "folders");
  if (folders == nullptr) return mounts;
  for (const Json& folder : folders->items) {
    MeasuredMount measured{text_of(folder, "mount"),
                           text_of(folder, "file_system"),
                           {},
                           measured_value(config, folder, "best_copy", "sluice.copy"),
                           measured_value(config, folder, "best_disk_reads", "sluice.disk_reads")};
    if (const Json* const drives = member(folder, "drives")) {
      for (const Json& drive : drives->items) measured.drives.push_back(printable(drive.text));
    }
    std::sort(measured.drives.begin(), measured.drives.end());
    if (!measured.mount.empty() && !(measured.copy.empty() && measured.disk_reads.empty())) {
      mounts.push_back(std::move(measured));
    }
  }
  return mounts;
}

}  // namespace

void apply_profile(const Sources& sources, Config& config) {
  const std::string file = config.text(key_at("sluice.profile"));
  if (file.empty()) return;
  config.measured.file = printable(file);
  const auto read = read_configuration_file(file);
  const auto* const text = std::get_if<FileText>(&read);
  if (text == nullptr) {
    const auto* const unusable = std::get_if<UnusableFile>(&read);
    leave_alone(config, file, unusable != nullptr ? unusable->why : "there is no such file");
    return;
  }
  const auto parsed = parse_json(text->text);
  const auto* const whole = std::get_if<Json>(&parsed);
  const Json* const best = whole != nullptr ? member(*whole, "best") : nullptr;
  if (best == nullptr || member(*whole, "sluice_profile") == nullptr) {
    leave_alone(config, file, "it is no profile: make one with `sluice profile -o FILE DIR`");
    return;
  }
  config.measured.date = text_of(*whole, "date");
  // Profiles of before say nothing of a machine, and hold for file systems wherever they agree.
  if (member(*whole, "machine") != nullptr && text_of(*whole, "machine") != base::machine_number()) {
    leave_alone(config, file, "it was made on another machine");
    return;
  }
  const Json* const soft = member(*whole, "soft");
  const bool was_soft = soft != nullptr && soft->kind == Json::Kind::boolean && soft->boolean;
  if (was_soft && sources.has_real_gpu != nullptr && sources.has_real_gpu()) {
    leave_alone(config, file, "it was made on the soft GPU, and says nothing of a real one");
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
  if (member(*whole, "machine") != nullptr) config.measured.mounts = mounts_of(config, *whole);
}

}  // namespace sluice::config
