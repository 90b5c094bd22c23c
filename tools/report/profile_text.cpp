// SPDX-License-Identifier: Apache-2.0
#include "report/profile_text.h"

#include <fmt/format.h>

#include <array>

namespace sluice::tools {

using Json = nlohmann::ordered_json;

namespace {

std::string speed_or_none(const Json& from, const char* key) {
  return from.contains(key) ? fmt::format("{:.2f} GiB/s", from[key].get<double>()) : "not measured";
}

}  // namespace

std::string profile_text(const Json& profile) {
  std::string text;
  for (const Json& link : profile["links"]) {
    text += fmt::format("{}: {} to the device, {} from it\n", link.value("device", ""),
                        speed_or_none(link, "to_device_gib_per_s"), speed_or_none(link, "from_device_gib_per_s"));
  }
  if (profile["links"].size() > 1 && !profile["folders"].empty())
    text += fmt::format("below, with the memory of {}:\n", profile.value("device", ""));
  for (const Json& folder : profile["folders"]) {
    std::string speeds;
    const auto add = [&speeds](const std::string& what, double speed) {
      speeds += fmt::format("{}{} {:.2f}", speeds.empty() ? "" : ", ", what, speed);
    };
    for (const char* name : {"direct_read_gib_per_s", "direct_write_gib_per_s", "write_gib_per_s"}) {
      const std::string word = name;
      if (folder.contains(name)) add(word.substr(0, word.find("_gib")), folder[name].get<double>());
    }
    for (const auto& [key, word, best] : {std::array{"direct_read_by_gib_per_s", "O_DIRECT", "best_disk_reads"},
                                          std::array{"cached_read_gib_per_s", "cached", "best_copy"}}) {
      if (!folder.contains(key)) continue;
      for (const auto& [way, speed] : folder[key].items()) add(fmt::format("{} by {}", word, way), speed.get<double>());
      if (folder.contains(best)) speeds += fmt::format("; best: {}", folder.value(best, ""));
    }
    text += fmt::format("{}: {}, {} ({}); {}\n", folder.value("folder", ""), folder.value("file_system", ""),
                        folder.value("path", ""), folder.value("reason", ""),
                        speeds.empty() ? "no speed was measured" : "in GiB/s: " + speeds);
  }
  for (const Json& drive : profile["drives"]) {
    text += drive.value("drive", "") + ": ";
    text += drive.contains("why") ? drive.value("why", "") + "\n"
                                  : fmt::format("{:.2f} GiB/s by itself, {:.0f} us for 4 KiB\n",
                                                drive.value("read_gib_per_s", 0.0), drive.value("read_4k_us", 0.0));
  }
  for (const auto& [key, value] : profile["best"].items()) {
    text += fmt::format("best in all folders: {} = {}\n", key, value.get<std::string>());
  }
  for (const Json& what : profile["left_out"]) text += fmt::format("left out: {}\n", what.get<std::string>());
  return text;
}

}  // namespace sluice::tools
