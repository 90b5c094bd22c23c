// One value from four sources; who comes later wins.
#include "config/config.h"

#include <algorithm>
#include <utility>

#include "config/load.h"

namespace sluice::config {

namespace {

std::vector<std::size_t> as_sizes(const Value& value) {
  const auto& numbers = std::get<std::vector<std::int64_t>>(value);
  std::vector<std::size_t> sizes(numbers.size());
  std::transform(numbers.begin(), numbers.end(), sizes.begin(),
                 [](std::int64_t n) { return static_cast<std::size_t>(n); });
  return sizes;
}

void apply_environment(const Sources& sources, Config& config) {
  for (std::size_t i = 0; i < key_count; ++i) {
    const Key& key = keys[i];
    if (key.environment.empty()) continue;
    const char* word = sources.environment(key.environment.data());
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

void note_what_changes_nothing(Config& config) {
  for (std::size_t i = 0; i < key_count; ++i) {
    if (keys[i].effect != Effect::accepted || !config.binds(i)) continue;
    config.notes.push_back({LogLevel::info, std::string(keys[i].name) + " is accepted and changes nothing here"});
  }
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
}

}  // namespace

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

Config make_config(const Sources& sources, const std::vector<Change>& changes) {
  Config config;
  apply_file(sources, config);
  apply_environment(sources, config);
  for (const Change& change : changes) config.set(change.key, change.value, Origin::parameter);
  note_what_changes_nothing(config);
  note_what_cannot_be_used(config);
  return config;
}

}  // namespace sluice::config
