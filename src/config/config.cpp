// Built-in defaults and the environment.
#include "config/config.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace sluice::config {

namespace {

constexpr std::array<std::string_view, 6> level_names{"ERROR", "WARN", "NOTICE", "INFO", "DEBUG", "TRACE"};

std::string in_upper_case(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper;
}

std::optional<bool> parse_bool(std::string_view text) {
  const std::string word = in_upper_case(text);
  if (word == "1" || word == "TRUE" || word == "YES" || word == "ON") return true;
  if (word == "0" || word == "FALSE" || word == "NO" || word == "OFF") return false;
  return std::nullopt;
}

// A boolean variable; what cannot be read leaves `value` alone and is complained of.
void read_flag(Environment environment, const char* name, bool& value, std::vector<std::string>& complaints) {
  const char* text = environment(name);
  if (text == nullptr || *text == '\0') return;
  if (const auto parsed = parse_bool(text)) {
    value = *parsed;
  } else {
    complaints.push_back(std::string(name) + "=" + text + " is not a yes or a no: use 1 or 0; ignored");
  }
}

const char* ask_process(const char* name) {
  return ::secure_getenv(name);
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view text) noexcept {
  for (std::size_t i = 0; i < level_names.size(); ++i) {
    const auto name = level_names[i];
    const bool same = std::equal(name.begin(), name.end(), text.begin(), text.end(), [](char a, char b) {
      return a == static_cast<char>(std::toupper(static_cast<unsigned char>(b)));
    });
    if (same) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

Config from_environment(Environment environment, std::vector<std::string>& complaints) {
  Config config;
  for (std::size_t i = 0; i < size_parameter_count; ++i) config.sizes[i] = size_parameters[i].standard;
  for (std::size_t i = 0; i < bool_parameter_count; ++i) {
    config.flags[i] = bool_parameters[i].standard;
    if (!bool_parameters[i].environment.empty()) {
      read_flag(environment, bool_parameters[i].environment.data(), config.flags[i], complaints);
    }
  }
  read_flag(environment, "SLUICE_VERIFY", config.verify, complaints);
  read_flag(environment, "SLUICE_EXPLAIN", config.explain, complaints);
  if (const char* mode = environment("SLUICE_MODE"); mode != nullptr && *mode != '\0') {
    if (std::string_view(mode) == "plain") {
      config.plain = true;
    } else if (std::string_view(mode) != "auto") {
      complaints.push_back(std::string("SLUICE_MODE=") + mode + " is unknown: use plain or auto; ignored");
    }
  }
  if (const char* path = environment("CUFILE_LOGFILE_PATH")) {
    config.log_file = path;
    config.log_file_given = true;
  }
  if (const char* level = environment("CUFILE_LOGGING_LEVEL"); level != nullptr && *level != '\0') {
    if (parse_log_level(level)) {
      config.log_level = in_upper_case(level);
    } else {
      complaints.push_back(std::string("CUFILE_LOGGING_LEVEL=") + level +
                           " is unknown: use ERROR, WARN, NOTICE, INFO, DEBUG or TRACE; ignored");
    }
  }
  return config;
}

Config from_environment(std::vector<std::string>& complaints) {
  return from_environment(&ask_process, complaints);
}

}  // namespace sluice::config
