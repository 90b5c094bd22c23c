// SPDX-License-Identifier: Apache-2.0
// The tree is walked once. Each value is set as it is met, unless the same key has been met under a better name.
#include "config/load.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace sluice::config {

namespace {

constexpr std::size_t most_unknown_keys = 32;  // that are named one by one
constexpr std::size_t longest_name = 200;      // dotted; what is longer is no key, nor does it hold one

// A path as messages show it: short enough to leave room for what is wrong.
std::string shortened(const std::string& path) {
  constexpr std::size_t longest = 160;
  return path.size() > longest ? path.substr(0, longest) + "..." : path;
}

class Loader {
 public:
  Loader(const std::string& path, Config& config) : path_(shortened(path)), config_(config), met_(key_count) {}

  void load(std::string_view text) {
    const auto parsed = parse_json(text);
    if (const auto* const error = std::get_if<JsonError>(&parsed)) {
      const std::string where = error->key.empty() ? "" : "in " + error->key + ": ";
      note(LogLevel::error, error->at.line,
           "column " + std::to_string(error->at.column) + ": " + where + error->what +
               "; the whole file is ignored and the defaults hold");
      return;
    }
    const Json& top = std::get<Json>(parsed);
    if (top.kind != Json::Kind::object) {
      note(LogLevel::error, top.at.line, "the file is no object in braces; the defaults hold");
      return;
    }
    walk(top, "");
    if (unknown_ > most_unknown_keys) {
      config_.notes.push_back(
          {LogLevel::warn, path_ + ": " + std::to_string(unknown_ - most_unknown_keys) + " more keys are unknown"});
    }
    check_slabs("properties.posix_pool_slab_size_kb", key_at("properties.posix_pool_slab_size_kb"),
                key_at("properties.posix_pool_slab_count"));
    check_gpu_slabs();
    check_addresses();
  }

 private:
  // How a key has been met so far.
  struct Met {
    Match match = Match::unknown;
    int line = 0;
  };

  void note(LogLevel level, int line, const std::string& what) {
    config_.notes.push_back({level, printable(path_ + ":" + std::to_string(line) + ": " + what)});
  }

  void walk(const Json& object, const std::string& prefix) {
    for (const JsonMember& member : object.members) {
      if (prefix.size() + member.name.size() > longest_name) {
        unknown(prefix + member.name.substr(0, longest_name), member);
        continue;
      }
      const std::string name = prefix + member.name;
      const Found found = resolve(name);
      const bool in_place = found.match == Match::exact || found.match == Match::alias;
      if (member.value.kind == Json::Kind::object && !in_place) {
        walk(member.value, name + ".");
      } else if (!in_place && is_section(name)) {
        note(LogLevel::error, member.at.line, name + " takes an object of keys in braces; it is ignored");
      } else if (found.match == Match::unknown) {
        unknown(name, member);
      } else {
        assign(found, name, member);
      }
    }
  }

  void unknown(const std::string& name, const JsonMember& member) {
    if (++unknown_ > most_unknown_keys) return;
    note(LogLevel::warn, member.at.line, name + " is no key that is known: " + advice_on(name));
  }

  void assign(const Found& found, const std::string& name, const JsonMember& member) {
    const Key& key = keys[found.key];
    Met& met = met_[found.key];
    const int line = member.at.line;
    if (found.match == Match::misplaced) {
      note(LogLevel::warn, line, name + " is read as " + std::string(key.name) + ", where this key belongs");
    }
    if (met.line != 0) {
      // Match counts from the best to the worst.
      const bool earlier_wins = met.match < found.match;
      note(LogLevel::warn, line,
           name + " gives " + std::string(key.name) + " again: line " + std::to_string(earlier_wins ? met.line : line) +
               " holds");
      if (earlier_wins) return;
    }
    met = {found.match, line};
    auto read = read_value(key, member.value);
    if (auto* const value = std::get_if<Value>(&read)) {
      config_.set(found.key, std::move(*value), Origin::file, line);
    } else {
      refuse(found.key, line, name + " " + std::get<Objection>(read).text);
    }
  }

  // Back to the default, with a reason.
  void refuse(std::size_t key, int line, const std::string& why) {
    Value standard = standard_value(keys[key]);
    note(LogLevel::error, line, why + "; the default holds: " + to_json(standard));
    config_.set(key, std::move(standard), Origin::built_in);
  }

  int line_of(std::size_t key) const { return config_.setting(key).line; }
  bool from_file(std::size_t key) const { return config_.setting(key).origin == Origin::file; }
  const std::vector<std::int64_t>& numbers(std::size_t key) const {
    return std::get<std::vector<std::int64_t>>(config_.setting(key).value);
  }

  // Sizes and counts are one matter: both hold or none.
  void refuse_slabs(std::size_t sizes, std::size_t counts, const std::string& why) {
    const std::size_t blamed = from_file(counts) ? counts : sizes;
    const int line = line_of(blamed);
    config_.set(sizes, standard_value(keys[sizes]), Origin::built_in);
    config_.set(counts, standard_value(keys[counts]), Origin::built_in);
    note(LogLevel::error, line, std::string(keys[blamed].name) + " " + why + "; the defaults of both hold");
  }

  bool check_slabs(std::string_view sizes_name, std::size_t sizes, std::size_t counts) {
    if (!from_file(sizes) && !from_file(counts)) return false;
    if (numbers(sizes).size() == numbers(counts).size()) return true;
    refuse_slabs(sizes, counts,
                 "does not go with " + std::string(sizes_name) + ": sizes and counts are lists of one length");
    return false;
  }

  void check_gpu_slabs() {
    constexpr std::size_t sizes = key_at("properties.gpu_bounce_buffer_slab_config.slab_size_kb");
    constexpr std::size_t counts = key_at("properties.gpu_bounce_buffer_slab_config.slab_count");
    constexpr std::int64_t largest_for_nvfs = 16384;
    if (!check_slabs(keys[sizes].name, sizes, counts) || numbers(sizes).empty()) return;
    const auto& list = numbers(sizes);
    if (std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) != list.end()) {
      refuse_slabs(sizes, counts, "goes with sizes that do not rise: order them, each once");
      return;
    }
    if (list.front() > largest_for_nvfs) {
      refuse_slabs(sizes, counts, "goes with sizes that are all above 16384: at least one has to be smaller");
      return;
    }
    for (const std::size_t legacy :
         {key_at("properties.max_direct_io_size_kb"), key_at("properties.max_device_cache_size_kb"),
          key_at("properties.per_buffer_cache_size_kb")}) {
      if (from_file(legacy) && !is_stock(keys[legacy], config_.setting(legacy).value)) {
        note(LogLevel::warn, line_of(legacy),
             std::string(keys[legacy].name) + " is given besides gpu_bounce_buffer_slab_config, which replaces it");
      }
    }
  }

  void check_addresses() {
    bool any = !config_.texts(key_at("properties.rdma_dev_addr_list")).empty();
    for (const std::string_view file_system : {"lustre", "beegfs", "nfs", "weka", "gpfs"}) {
      const std::string section = "fs." + std::string(file_system) + ".";
      const std::size_t list = *find_key(section + "rdma_dev_addr_list");
      const std::size_t table = *find_key(section + "mount_table");
      const bool has_table = !config_.mounts(table).empty();
      any = any || has_table || !config_.texts(list).empty();
      if (has_table && !config_.texts(list).empty()) {
        refuse(list, line_of(list), std::string(keys[list].name) + " is given besides a mount_table, which wins");
      }
    }
    constexpr std::size_t routing = key_at("properties.rdma_dynamic_routing");
    if (from_file(routing) && config_.flag(routing) && !any) {
      note(LogLevel::warn, line_of(routing), std::string(keys[routing].name) + " wants addresses, and none are given");
    }
  }

  const std::string path_;
  Config& config_;
  std::vector<Met> met_;
  std::size_t unknown_ = 0;
};

}  // namespace

void apply_text(const std::string& path, std::string_view text, Config& config) {
  Loader(path, config).load(text);
}

void apply_file(const Sources& sources, Config& config) {
  const char* const named = sources.environment("CUFILE_ENV_PATH_JSON");
  const bool is_named = named != nullptr && *named != '\0';
  const std::string path = is_named ? named : sources.default_file;
  const auto complain = [&](const std::string& why) {
    config.notes.push_back({LogLevel::error, printable(shortened(path) + ": " + why + "; the defaults hold" +
                                                       (is_named ? " (CUFILE_ENV_PATH_JSON names this file)" : ""))});
  };
  const auto read = read_configuration_file(path);
  if (const auto* const file = std::get_if<FileText>(&read)) {
    config.file = path;
    apply_text(path, file->text, config);
  } else if (const auto* const unusable = std::get_if<UnusableFile>(&read)) {
    complain(unusable->why);
  } else if (is_named) {
    complain("there is no such file");
  }
}

}  // namespace sluice::config
