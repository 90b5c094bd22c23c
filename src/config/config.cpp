// SPDX-License-Identifier: Apache-2.0
// One value from four sources; the later one wins.
#include "config/config.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/abstract_socket.h"
#include "config/load.h"
#include "config/profile.h"

namespace sluice::config {

namespace {

std::vector<std::size_t> as_sizes(const Value& value) {
  const auto& numbers = std::get<std::vector<std::int64_t>>(value);
  std::vector<std::size_t> sizes(numbers.size());
  std::transform(numbers.begin(), numbers.end(), sizes.begin(),
                 [](std::int64_t n) { return static_cast<std::size_t>(n); });
  return sizes;
}

constexpr std::size_t slab_sizes = key_at("properties.gpu_bounce_buffer_slab_config.slab_size_kb");
constexpr std::size_t bounce_buffer_counts = key_at("properties.gpu_bounce_buffer_slab_config.slab_count");
constexpr std::array uniform_keys{key_at("properties.max_direct_io_size_kb"),
                                  key_at("properties.max_device_cache_size_kb"),
                                  key_at("properties.per_buffer_cache_size_kb")};

// The defaults of later versions, and what they say of older keys.
void follow_version(Config& config) {
  const auto by_default = [&config](std::size_t key, Value value) {
    if (config.setting(key).origin == Origin::built_in) config.set(key, std::move(value), Origin::built_in);
  };
  if (config.api_version >= 1190) by_default(uniform_keys[0], std::int64_t{1024});
  if (config.api_version < 1170) return;
  using Numbers = std::vector<std::int64_t>;
  by_default(slab_sizes, Numbers{1024, 8192, 16384, 65536});
  by_default(bounce_buffer_counts, Numbers{128, 8, 4, 2});
  for (const std::size_t key : uniform_keys) {
    if (!config.binds(key)) continue;
    config.notes.push_back(
        {LogLevel::warn, std::string(keys[key].name) +
                             " is deprecated since 1.17: give properties.gpu_bounce_buffer_slab_config, "
                             "with slab_size_kb and slab_count"});
  }
}

void note_what_changes_nothing(Config& config) {
  for (std::size_t i = 0; i < key_count; ++i) {
    if (keys[i].effect != Effect::accepted || !config.binds(i)) continue;
    config.notes.push_back({LogLevel::info, std::string(keys[i].name) + " is accepted and changes nothing here"});
  }
}

// Why what a parameter was set to does not hold; empty when it does.
std::string objection_to(const Change& change) {
  const std::string name(keys[change.key].name);
  for (const SizeParameter& parameter : size_parameters) {
    if (parameter.index != change.key) continue;
    const auto value = static_cast<std::size_t>(std::get<std::int64_t>(change.value));
    const bool no_limit =
        parameter.id == CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB && value == ~std::size_t{0};
    if (in_range(parameter, value) || no_limit) return {};
    return name + " takes " + std::to_string(parameter.lowest) + " to " + std::to_string(parameter.highest) + ", not " +
           std::to_string(value) + "; it stays as it was";
  }
  if (change.key != key_at("logging.dir")) return {};
  struct stat status {};
  const std::string& folder = std::get<std::string>(change.value);
  const bool there = ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  return there ? "" : name + ": there is no folder " + folder + "; it stays as it was";
}

// Parameters that NVIDIA's library takes without a look: what cannot be used of them is told.
void note_what_cannot_be_used(Config& config) {
  const auto note = [&](std::string text) { config.notes.push_back({LogLevel::notice, printable(std::move(text))}); };
  if (!parse_log_level(config.log_level)) {
    note("logging.level takes NOTICE, ERROR, WARN, INFO, DEBUG or TRACE, not " + config.log_level + ": ERROR holds");
  }
  for (const std::size_t size : config.posix_slabs.sizes_kb) {
    if (size % 4 == 0 && size > 0) continue;
    note("properties.posix_pool_slab_size_kb takes multiples of 4, not " + std::to_string(size) +
         "; nothing depends on it here");
    break;
  }
  if (const std::string word = trace_to_nowhere(config); !word.empty())
    note("profile.trace takes on, or the name of a socket that is there, not " + word + ": it counts as on");
}

}  // namespace

std::string trace_to_nowhere(const Config& config) {
  const std::string& word = config.text(key_at("profile.trace"));
  return word.empty() || word == "on" || base::is_abstract_socket(word) ? std::string() : word;
}

Config::Config() {
  settings.reserve(key_count);
  for (const Key& key : keys) settings.push_back({standard_value(key)});
  follow();
}

void Config::set(std::size_t key, Value value, Origin origin, int line) {
  settings[key] = {std::move(value), origin, line};
  follow();
}

bool Config::binds(std::size_t key) const {
  const Setting& setting = settings[key];
  if (setting.origin != Origin::file) return setting.origin != Origin::built_in;
  return flag(key_at("sluice.strict")) || !is_stock(keys[key], setting.value);
}

void Config::follow() {
  plain = text(key_at("sluice.mode")) == "plain";
  verify = flag(key_at("sluice.verify"));
  explain = flag(key_at("sluice.explain"));
  poll_thread = flag(key_at("sluice.poll_thread"));
  api_version = static_cast<int>(number(key_at("sluice.api_version")));
  for (std::size_t i = 0; i < size_parameter_count; ++i) {
    sizes[i] = static_cast<std::size_t>(number(size_parameters[i].index));
  }
  for (std::size_t i = 0; i < bool_parameter_count; ++i) flags[i] = flag(bool_parameters[i].index);
  log_level = text(key_at("logging.level"));
  log_file = text(key_at("sluice.log_file"));
  log_file_given = settings[key_at("sluice.log_file")].origin != Origin::built_in;
  log_dir = text(key_at("logging.dir"));
  posix_slabs = {as_sizes(settings[key_at("properties.posix_pool_slab_size_kb")].value),
                 as_sizes(settings[key_at("properties.posix_pool_slab_count")].value)};
  gpu_slabs = {as_sizes(settings[key_at("properties.gpu_bounce_buffer_slab_config.slab_size_kb")].value),
               as_sizes(settings[key_at("properties.gpu_bounce_buffer_slab_config.slab_count")].value)};
}

void apply_environment(const std::function<const char*(const char*)>& variable, Config& config) {
  for (std::size_t i = 0; i < key_count; ++i) {
    const Key& key = keys[i];
    if (key.environment.empty()) continue;
    const char* word = variable(key.environment.data());
    if (word == nullptr) continue;
    // An empty variable counts as unset, but for the log file, where it means none.
    if (*word == '\0' && i != key_at("sluice.log_file")) continue;
    auto read = read_word(key, word);
    if (auto* const value = std::get_if<Value>(&read)) {
      config.set(i, std::move(*value), Origin::environment);
    } else {
      const std::string why = std::get<Objection>(read).text;
      config.notes.push_back({LogLevel::warn, printable(std::string(key.environment) + " " + why + "; it is ignored")});
    }
  }
}

Config make_config(const Sources& sources, const std::vector<Change>& changes) {
  Config config;
  apply_file(sources, config);
  apply_environment(sources.environment, config);
  for (const Change& change : changes) {
    if (const std::string why = objection_to(change); !why.empty()) {
      config.notes.push_back({LogLevel::notice, printable(why)});
    } else {
      config.set(change.key, change.value, Origin::parameter);
    }
  }
  apply_profile(sources, config);
  follow_version(config);
  note_what_changes_nothing(config);
  note_what_cannot_be_used(config);
  return config;
}

}  // namespace sluice::config
