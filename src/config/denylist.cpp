// SPDX-License-Identifier: Apache-2.0
// Entries are compared as a person would write them: with or without /dev/, with or without a slash at the end.
#include "config/denylist.h"

#include <algorithm>
#include <array>

namespace sluice::config {

namespace {

std::string_view without_dev(std::string_view name) {
  constexpr std::string_view folder = "/dev/";
  return name.substr(0, folder.size()) == folder ? name.substr(folder.size()) : name;
}

std::string_view without_last_slash(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

template <typename Matches>
std::optional<std::string> listed(const Config& config, std::size_t key, Matches matches) {
  const auto& entries = config.texts(key);
  const auto found = std::find_if(entries.begin(), entries.end(), matches);
  if (found == entries.end()) return std::nullopt;
  return std::string(keys[key].name) + " lists " + *found;
}

}  // namespace

bool denies_anything(const Config& config) {
  constexpr std::array lists{key_at("denylist.filesystems"), key_at("denylist.mounts"), key_at("denylist.devices"),
                             key_at("denylist.drivers")};
  return std::any_of(lists.begin(), lists.end(), [&](std::size_t list) { return !config.texts(list).empty(); });
}

std::optional<std::string> denial(const Config& config, const Place& place) {
  const auto is = [](std::string_view known, std::string_view entry) { return !known.empty() && known == entry; };
  if (auto why = listed(config, key_at("denylist.filesystems"),
                        [&](std::string_view entry) { return is(place.file_system, entry); })) {
    return why;
  }
  if (auto why = listed(config, key_at("denylist.mounts"), [&](std::string_view entry) {
        return is(without_last_slash(place.mount), without_last_slash(entry));
      })) {
    return why;
  }
  if (auto why = listed(config, key_at("denylist.devices"), [&](std::string_view entry) {
        const std::string_view name = without_dev(entry);
        return is(place.device, name) ||
               std::find(place.members.begin(), place.members.end(), name) != place.members.end();
      })) {
    return why;
  }
  return listed(config, key_at("denylist.drivers"), [&](std::string_view entry) { return is(place.driver, entry); });
}

}  // namespace sluice::config
