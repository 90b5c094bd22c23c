// SPDX-License-Identifier: Apache-2.0
// Recursive descent, one byte at a time. An error is thrown inside and caught at the door: a file has one.
#include "config/json.h"

#include <algorithm>
#include <utility>

namespace sluice::config {

namespace {

constexpr int deepest = 32;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& text, std::uint32_t point) {
  const auto byte = [&](std::uint32_t value) { text.push_back(static_cast<char>(value)); };
  if (point < 0x80) {
    byte(point);
  } else if (point < 0x800) {
    byte(0xc0 | point >> 6);
    byte(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    byte(0xe0 | point >> 12);
    byte(0x80 | (point >> 6 & 0x3f));
    byte(0x80 | (point & 0x3f));
  } else {
    byte(0xf0 | point >> 18);
    byte(0x80 | (point >> 12 & 0x3f));
    byte(0x80 | (point >> 6 & 0x3f));
    byte(0x80 | (point & 0x3f));
  }
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Json document() {
    skip_space();
    if (at_end()) fail("nothing is in it: {} is the smallest configuration");
    Json value = this->value(0);
    skip_space();
    if (!at_end()) fail("something follows the closing bracket: remove it");
    return value;
  }

 private:
  bool at_end() const { return next_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[next_]; }
  bool sees(std::string_view word) const { return text_.substr(next_, word.size()) == word; }

  char take() {
    const char c = text_[next_++];
    if (c == '\n') {
      ++here_.line;
      here_.column = 1;
    } else {
      ++here_.column;
    }
    return c;
  }

  void take(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) take();
  }

  [[noreturn]] void fail(std::string what) const { fail_at(here_, std::move(what)); }
  [[noreturn]] void fail_at(Position at, std::string what) const { throw JsonError{at, key(), std::move(what)}; }

  std::string key() const {
    std::string dotted;
    for (const std::string& name : names_) dotted += (dotted.empty() ? "" : ".") + name;
    return dotted;
  }

  std::string found() const {
    if (at_end()) return "the end of the file";
    const char c = peek();
    const bool shown = c > ' ' && c < '\x7f';
    return shown ? std::string("'") + c + "'" : "a character that does not belong here";
  }

  void skip_space() {
    while (!at_end()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        take();
      } else if (sees("//")) {
        while (!at_end() && peek() != '\n') take();
      } else if (sees("/*")) {
        skip_block_comment();
      } else {
        return;
      }
    }
  }

  void skip_block_comment() {
    const Position start = here_;
    take(2);
    while (!sees("*/")) {
      if (at_end()) fail_at(start, "this comment is never closed: end it with */");
      take();
    }
    take(2);
  }

  Json value(int depth) {
    if (depth > deepest) fail("brackets are nested too deeply");
    Json json;
    json.at = here_;
    const char c = peek();
    if (c == '{') {
      object(json, depth);
    } else if (c == '[') {
      array(json, depth);
    } else if (c == '"') {
      json.kind = Json::Kind::text;
      json.text = string();
    } else if (c == '-' || is_digit(c)) {
      number(json);
    } else if (!word(json)) {
      fail("a value is expected, not " + found());
    }
    return json;
  }

  bool word(Json& json) {
    for (const std::string_view spelling : {"true", "false", "null"}) {
      if (!sees(spelling)) continue;
      take(spelling.size());
      json.kind = spelling == "null" ? Json::Kind::null : Json::Kind::boolean;
      json.boolean = spelling == "true";
      return true;
    }
    return false;
  }

  // After an element: true when another one follows, false when the bracket closes.
  bool continues(char closing) {
    skip_space();
    const Position here = here_;
    if (peek() == closing && !at_end()) {
      take();
      return false;
    }
    if (peek() != ',') fail(std::string("',' or '") + closing + "' is expected, not " + found());
    take();
    skip_space();
    if (peek() == closing) fail_at(here, "the comma before the closing bracket is one too many: remove it");
    return true;
  }

  void object(Json& json, int depth) {
    json.kind = Json::Kind::object;
    take();
    skip_space();
    if (peek() == '}') {
      take();
      return;
    }
    do {
      if (peek() != '"') fail("a name in double quotes is expected, not " + found());
      JsonMember& member = json.members.emplace_back();
      member.at = here_;
      member.name = string();
      names_.push_back(member.name);
      skip_space();
      if (peek() != ':') fail("':' is expected after the name, not " + found());
      take();
      skip_space();
      member.value = value(depth + 1);
      names_.pop_back();
    } while (continues('}'));
  }

  void array(Json& json, int depth) {
    json.kind = Json::Kind::array;
    take();
    skip_space();
    if (peek() == ']') {
      take();
      return;
    }
    do {
      json.items.push_back(value(depth + 1));
    } while (continues(']'));
  }

  void digits(Json& json) {
    if (!is_digit(peek())) fail("a digit is expected, not " + found());
    while (is_digit(peek())) json.text.push_back(take());
  }

  void number(Json& json) {
    json.kind = Json::Kind::number;
    if (peek() == '-') json.text.push_back(take());
    if (peek() == '0') {
      json.text.push_back(take());
      if (is_digit(peek())) fail("a number does not begin with 0");
    } else {
      digits(json);
    }
    if (peek() == '.') {
      json.text.push_back(take());
      digits(json);
    }
    if (peek() == 'e' || peek() == 'E') {
      json.text.push_back(take());
      if (peek() == '+' || peek() == '-') json.text.push_back(take());
      digits(json);
    }
  }

  std::string string() {
    const Position start = here_;
    std::string text;
    take();
    for (;;) {
      if (at_end() || peek() == '\n') fail_at(start, "this text is never closed: end it with a double quote");
      if (static_cast<unsigned char>(peek()) < ' ') fail("a control character is in a text: write it as \\u00XX");
      const char c = take();
      if (c == '"') return text;
      if (c == '\\') {
        escape(text);
      } else {
        text.push_back(c);
      }
    }
  }

  void escape(std::string& text) {
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    const char c = peek();
    if (const auto at = letters.find(c); at != std::string_view::npos && !at_end()) {
      take();
      text.push_back(meanings[at]);
    } else if (c == 'u') {
      take();
      append_utf8(text, code_point());
    } else {
      fail("a backslash is followed by " + found() + ": write \\\\ for a backslash");
    }
  }

  std::uint32_t four_hex_digits() {
    std::uint32_t unit = 0;
    for (int i = 0; i < 4; ++i) {
      const int digit = hex_digit(peek());
      if (digit < 0) fail("\\u takes four hexadecimal digits");
      take();
      unit = unit << 4 | static_cast<std::uint32_t>(digit);
    }
    return unit;
  }

  std::uint32_t code_point() {
    const std::uint32_t first = four_hex_digits();
    if (first < 0xd800 || first > 0xdfff) return first;
    if (first < 0xdc00 && sees("\\u")) {
      take(2);
      const std::uint32_t second = four_hex_digits();
      if (second >= 0xdc00 && second <= 0xdfff) return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    }
    fail("half of a surrogate pair stands alone");
  }

  std::string_view text_;
  std::size_t next_ = 0;
  Position here_;
  std::vector<std::string> names_;  // of the objects around
};

}  // namespace

std::variant<Json, JsonError> parse_json(std::string_view text) {
  if (text.substr(0, byte_order_mark.size()) == byte_order_mark) text.remove_prefix(byte_order_mark.size());
  try {
    return Reader(text).document();
  } catch (JsonError& error) {
    return std::move(error);
  }
}

std::string quoted(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20) {
      out += {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
    } else {
      out.push_back(c);
    }
  }
  return out + '"';
}

std::string printable(std::string text) {
  constexpr std::size_t longest = 400;
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return text;
}

}  // namespace sluice::config
