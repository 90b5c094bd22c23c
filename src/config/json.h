// SPDX-License-Identifier: Apache-2.0
// JSON with // and /* */ comments, read into a tree that remembers where everything stood. Nothing is interpreted: a
// number keeps its spelling. Strict otherwise, since a file that means something else than it says is of no help.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice::config {

// Lines and columns from 1; columns count bytes.
struct Position {
  int line = 1;
  int column = 1;
};

struct JsonMember;

struct Json {
  enum class Kind : std::uint8_t { null, boolean, number, text, array, object };

  Kind kind = Kind::null;
  Position at;
  bool boolean = false;
  std::string text;  // of a text; the spelling of a number
  std::vector<Json> items;
  std::vector<JsonMember> members;  // in the order of the file, names given twice included
};

struct JsonMember {
  std::string name;
  Position at;  // of the name
  Json value;
};

struct JsonError {
  Position at;
  std::string key;  // the dotted name of what was being read; "" at the top
  std::string what;
};

// A document is one value; an empty one is an error, and so is nesting deeper than 32.
std::variant<Json, JsonError> parse_json(std::string_view text);

// `text` in quotes, escaped where JSON wants it.
std::string quoted(std::string_view text);

// Something from elsewhere made safe for one line of a log or a terminal: no control characters, at most 400 bytes.
std::string printable(std::string text);

}  // namespace sluice::config
