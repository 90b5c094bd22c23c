// SPDX-License-Identifier: Apache-2.0
// What the library has been told to do: one immutable value a driver life, made from the built-in defaults, the
// configuration file, the environment and the staged parameters, in rising order of authority.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "config/keys.h"
#include "config/measured.h"
#include "config/parameters.h"
#include "config/source.h"
#include "config/value.h"

namespace sluice::config {

// In the order of sluice_origin_t.
enum class Origin : std::uint8_t { built_in, file, environment, parameter, measured };

// What holds for one key, and which source said so.
struct Setting {
  Value value;
  Origin origin = Origin::built_in;
  int line = 0;  // of the file, when it came from there
};

// What there is to say about the configuration, for the log and for gdscheck. At level `error`: something of the file
// cannot be used, and its default holds. `warn`: something is not understood, or contradicts. `info`: the rest.
struct Note {
  LogLevel level = LogLevel::info;
  std::string text;
};

// Staging memory of one kind: pieces of sizes_kb[i], counts[i] of them.
struct Slabs {
  std::vector<std::size_t> sizes_kb;
  std::vector<std::size_t> counts;
};

struct Config {
  // The built-in defaults.
  Config();

  // Changes one key, and what follows from it below.
  void set(std::size_t key, Value value, Origin origin, int line = 0);

  const Setting& setting(std::size_t key) const noexcept { return settings[key]; }
  // Whether the user wishes this value, so that the library may not choose another one. Values of the file that equal
  // NVIDIA's stock file express no wish, unless sluice.strict says so.
  bool binds(std::size_t key) const;

  // By key_at("section.name"), for keys that have no field below. The kind has to be the key's own.
  bool flag(std::size_t key) const { return std::get<bool>(settings[key].value); }
  std::int64_t number(std::size_t key) const { return std::get<std::int64_t>(settings[key].value); }
  const std::string& text(std::size_t key) const { return std::get<std::string>(settings[key].value); }
  const std::vector<std::string>& texts(std::size_t key) const {
    return std::get<std::vector<std::string>>(settings[key].value);
  }
  const std::vector<MountAddresses>& mounts(std::size_t key) const {
    return std::get<MountTable>(settings[key].value).lines;
  }

  std::size_t size(CUFileSizeTConfigParameter_t id) const noexcept { return sizes[static_cast<std::size_t>(id)]; }
  bool flag(CUFileBoolConfigParameter_t id) const noexcept { return flags[static_cast<std::size_t>(id)]; }

  std::vector<Setting> settings;  // in the order of `keys`
  std::vector<Note> notes;
  std::string file;  // the configuration file that was read; "" when there is none
  Measured measured;

  // What follows from the settings, for those that ask often. Kept by set().
  bool plain = false;        // sluice.mode is "plain": one thread, one copy, nothing clever
  bool verify = false;       // every transfer is compared with a second, plain read
  bool explain = false;      // one line a handle on stderr
  bool poll_thread = false;  // direct transfers that are polled for are polled for by a thread of the kernel
  std::array<std::size_t, size_parameter_count> sizes{};
  std::array<bool, bool_parameter_count> flags{};
  int api_version = 1150;  // that the library answers for: 1000 * major + 10 * minor
  std::string log_level;
  std::string log_file;         // empty: no log is written
  bool log_file_given = false;  // also when it was given as empty
  std::string log_dir;
  Slabs posix_slabs;
  Slabs gpu_slabs;

 private:
  void follow();
};

// A key that a parameter function has changed.
struct Change {
  std::size_t key = 0;
  Value value;
};

// What the variables say, each of which `variable` gives, or nullptr. What cannot be used of them is noted.
void apply_environment(const std::function<const char*(const char*)>& variable, Config& config);

// What profile.trace says where that is neither "on" nor the name of a socket that is there: events are recorded, and
// go nowhere. "" else.
std::string trace_to_nowhere(const Config& config);

// Built-in defaults, then the file, the environment and the changes, in this order. Never fails: what cannot be used
// is left at its default and noted.
Config make_config(const Sources& sources, const std::vector<Change>& changes);

}  // namespace sluice::config
