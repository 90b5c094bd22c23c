// SPDX-License-Identifier: Apache-2.0
// The value of a key: what it may be, how it is read, how it is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/json.h"
#include "config/key.h"

namespace sluice::config {

// From the least to the most that is written, along NVIDIA's list: notices are written at every level. As a number, a
// level is its place in the list.
enum class LogLevel : int { notice, error, warn, info, debug, trace };

// NOTICE, ERROR, WARN, INFO, DEBUG, TRACE in any case; nullopt for anything else.
std::optional<LogLevel> parse_log_level(std::string_view text) noexcept;

// One line of a mount_table.
struct MountAddresses {
  std::string mount;
  std::vector<std::string> addresses;
  bool operator==(const MountAddresses&) const = default;
};

// All of a mount_table. A type of its own among the values: with nothing in a std::variant but texts, vectors and
// numbers, libstdc++ 12 takes the variant for one that always has a value, and destroys what a copy without memory
// never made.
struct MountTable {
  std::vector<MountAddresses> lines;
  bool operator==(const MountTable&) const = default;
};

// flag; number; level, text, choice, hex; numbers; texts, choices, addresses; mounts.
using Value =
    std::variant<bool, std::int64_t, std::string, std::vector<std::int64_t>, std::vector<std::string>, MountTable>;

// What is wrong with a value, as the end of a sentence: "takes a whole number from 0 to 32, not 99".
struct Objection {
  explicit Objection(std::string sentence) : text(std::move(sentence)) {}
  std::string text;
};

// The value that `json` gives to `key`.
std::variant<Value, Objection> read_value(const Key& key, const Json& json);

// The same from a word of the environment, where lists and tables cannot be given. A flag takes 1, true, yes, on and
// their opposites in any case.
std::variant<Value, Objection> read_word(const Key& key, std::string_view word);

// What holds where nothing is configured.
Value standard_value(const Key& key);

// Whether one of NVIDIA's stock files says this.
bool is_stock(const Key& key, const Value& value);

// As cufile.json spells it.
std::string to_json(const Value& value);

// What a key takes, for people: "true or false", "a whole number, 0 to 32".
std::string describe_kind(const Key& key);

}  // namespace sluice::config
