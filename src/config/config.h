// What the library has been told to do: one immutable value a driver life, made from the built-in defaults, the
// environment and the staged parameters, in rising order of authority.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/parameters.h"

namespace sluice::config {

enum class LogLevel : int { error, warn, notice, info, debug, trace };

// ERROR, WARN, NOTICE, INFO, DEBUG, TRACE in any case; nullopt for anything else.
std::optional<LogLevel> parse_log_level(std::string_view text) noexcept;

// Staging memory of one kind: pieces of sizes_kb[i], counts[i] of them.
struct Slabs {
  std::vector<std::size_t> sizes_kb;
  std::vector<std::size_t> counts;
};

struct Config {
  // SLUICE_MODE=plain: one thread, one copy, nothing clever.
  bool plain = false;
  // SLUICE_VERIFY=1: every transfer is compared with a second, plain read.
  bool verify = false;
  // SLUICE_EXPLAIN=1: one line a handle on stderr.
  bool explain = false;

  std::array<std::size_t, size_parameter_count> sizes{};
  std::array<bool, bool_parameter_count> flags{};
  std::string log_level = "ERROR";
  std::string log_file;         // CUFILE_LOGFILE_PATH; empty: no log is written
  bool log_file_given = false;  // also when it was given as empty
  std::string log_dir;
  Slabs posix_slabs{{4, 1024, 16384}, {128, 64, 64}};
  Slabs gpu_slabs{};

  std::size_t size(CUFileSizeTConfigParameter_t id) const noexcept { return sizes[static_cast<std::size_t>(id)]; }
  bool flag(CUFileBoolConfigParameter_t id) const noexcept { return flags[static_cast<std::size_t>(id)]; }
};

// How the environment is asked: secure_getenv in the product, a lambda in tests. Answers nullptr when unset.
using Environment = const char* (*)(const char* name);

// The built-in defaults with the environment applied. What the environment says wrongly is left at its default and
// named in `complaints`.
Config from_environment(Environment environment, std::vector<std::string>& complaints);

// The same with the process's own environment; complaints go to the log when the driver opens.
Config from_environment(std::vector<std::string>& complaints);

}  // namespace sluice::config
