// SPDX-License-Identifier: Apache-2.0
// Finding keys by exact, other, misplaced and misspelt names.
#include "config/keys.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace sluice::config {

namespace {

struct Foreign {
  std::string_view name;
  std::string_view explanation;
};

// Seen in published guides; cuFile has never had them.
constexpr std::array foreign_keys{
    Foreign{"nvfs.rdma.enable",
            "RDMA has no switch: it is used where addresses are given, see "
            "properties.rdma_dev_addr_list"},
    Foreign{"nvfs.rdma.devices",
            "adapters are given by IPv4 addresses, not by device names, see "
            "properties.rdma_dev_addr_list"},
    Foreign{"nvfs.rdma.poll_mode", "polling is not a matter of RDMA here, see properties.use_poll_mode"},
};

// Longer names are no misspellings.
constexpr std::size_t longest_key = 100;

std::string_view last_part(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

bool has_section(std::string_view name, std::string_view section) {
  return name.substr(0, section.size()) == section;
}

// Keys of these sections have names that speak for themselves wherever they stand; "devices" or "level" do not.
bool speaks_for_itself(std::string_view name) {
  return has_section(name, "properties.") || has_section(name, "execution.") || has_section(name, "profile.") ||
         has_section(name, "miscellaneous.");
}

// Every name that is understood, with its key.
template <typename Use>
void for_each_name(Use use) {
  for (std::size_t i = 0; i < key_count; ++i) use(keys[i].name, i);
  for (const Alias& alias : aliases) use(alias.name, alias.key);
}

std::optional<std::size_t> key_with_last_part(std::string_view part) {
  std::optional<std::size_t> found;
  bool several = false;
  for_each_name([&](std::string_view name, std::size_t key) {
    if (last_part(name) != part) return;
    several = several || !speaks_for_itself(name) || (found && *found != key);
    found = key;
  });
  return several ? std::nullopt : found;
}

// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before;
  std::vector<std::size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::move(last);
    last = std::move(row);
  }
  return last.back();
}

std::string_view nearest_name(std::string_view name) {
  if (name.size() > longest_key) return {};
  const std::string_view part = last_part(name);
  const std::size_t near = std::max<std::size_t>(2, part.size() / 3);
  std::string_view nearest;
  std::size_t least = near + 1;
  for_each_name([&](std::string_view known, std::size_t) {
    // Another section counts as one slip, whatever its name.
    const std::size_t away = std::min(distance(name, known), distance(part, last_part(known)) + 1);
    if (away < least) {
      least = away;
      nearest = known;
    }
  });
  return nearest;
}

}  // namespace

std::optional<std::size_t> find_key(std::string_view name) noexcept {
  for (std::size_t i = 0; i < key_count; ++i) {
    if (keys[i].name == name) return i;
  }
  return std::nullopt;
}

Found resolve(std::string_view name) {
  if (const auto key = find_key(name)) return {Match::exact, *key};
  for (const Alias& alias : aliases) {
    if (alias.name == name) return {Match::alias, alias.key};
  }
  if (const auto key = key_with_last_part(last_part(name))) return {Match::misplaced, *key};
  return {};
}

bool is_section(std::string_view name) noexcept {
  bool section = false;
  for_each_name([&](std::string_view known, std::size_t) {
    section = section || (known.size() > name.size() && has_section(known, name) && known[name.size()] == '.');
  });
  return section && !name.empty();
}

std::string advice_on(std::string_view name) {
  for (const Foreign& foreign : foreign_keys) {
    if (foreign.name == name) return std::string(foreign.explanation);
  }
  const std::string_view nearest = nearest_name(name);
  if (nearest.empty()) return "no known key is like it, see docs/reference/configuration.md";
  return "did you mean " + std::string(nearest) + "?";
}

}  // namespace sluice::config
