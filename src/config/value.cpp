// SPDX-License-Identifier: Apache-2.0
// From JSON and words to typed values, and back to text.
#include "config/value.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace sluice::config {

namespace {

using Read = std::variant<Value, Objection>;

constexpr std::array<std::string_view, 6> level_names{"NOTICE", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return upper(x) == upper(y); });
}

std::vector<std::string_view> split(std::string_view choices) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= choices.size();) {
    const auto end = std::min(choices.find('|', start), choices.size());
    parts.push_back(choices.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string listed(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += std::string(i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  }
  return text;
}

std::string describe_limits(const Limits& limits) {
  std::string text = std::to_string(limits.lowest) + " to " + std::to_string(limits.highest);
  if (limits.step > 1) text += " in steps of " + std::to_string(limits.step);
  if (limits.unlimited) text += ", or -1 for no limit";
  return text;
}

std::string describe_json(const Json& json) {
  constexpr std::size_t longest = 40;
  switch (json.kind) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return json.boolean ? "true" : "false";
    case Json::Kind::number:
      return json.text.size() > longest ? json.text.substr(0, longest) + "..." : json.text;
    case Json::Kind::text:
      return quoted(json.text.size() > longest ? json.text.substr(0, longest) + "..." : json.text);
    case Json::Kind::array:
      return "a list";
    case Json::Kind::object:
      return "an object";
  }
  return {};
}

Objection objection(const Key& key, const std::string& instead) {
  return Objection("takes " + describe_kind(key) + ", not " + instead);
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> number_within(const Limits& limits, std::string_view text) {
  const auto number = parse_number(text);
  if (!number) return std::nullopt;
  if (*number == -1 && limits.unlimited) return number;
  const bool fits = *number >= limits.lowest && *number <= limits.highest && *number % limits.step == 0;
  return fits ? number : std::nullopt;
}

std::optional<std::string> level_from(std::string_view text) {
  if (const auto level = parse_log_level(text)) return std::string(level_names[static_cast<std::size_t>(*level)]);
  if (const auto number = parse_number(text); number && *number >= 0 && *number < 6) {
    return std::string(level_names[static_cast<std::size_t>(*number)]);
  }
  return std::nullopt;
}

bool is_hex(std::string_view text) {
  if (text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X") text.remove_prefix(2);
  std::uint32_t bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  return error == std::errc{} && end == text.data() + text.size() && text.size() <= 8;
}

bool is_choice(const Key& key, std::string_view text) {
  const auto choices = split(key.choices);
  return std::find(choices.begin(), choices.end(), text) != choices.end();
}

bool is_address(const std::string& text) {
  in_addr address{};
  return text.find('\0') == std::string::npos && ::inet_pton(AF_INET, text.c_str(), &address) == 1;
}

// Which of these GPUs there are is found when the driver opens.
bool is_links(std::string_view text) {
  if (text == "auto" || text == "own" || text == "lend") return true;
  while (true) {
    unsigned ordinal = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
    if (error != std::errc() || ordinal >= most_gpus) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return true;
    if (text.front() != ',') return false;
    text.remove_prefix(1);
  }
}

// Paths and names go to system calls and logs as C strings.
bool is_plain_text(std::string_view text) {
  return text.find('\0') == std::string_view::npos;
}

bool fits_single(const Key& key, const std::string& text) {
  switch (key.kind) {
    case Kind::choice:
      // Empty says "none", where that is the standard.
      return is_choice(key, text) || (text.empty() && key.standard == "\"\"");
    case Kind::hex:
      return is_hex(text);
    case Kind::links:
      return is_links(text);
    default:
      return is_plain_text(text);
  }
}

bool fits_in_list(const Key& key, const std::string& text) {
  switch (key.kind) {
    case Kind::choices:
      return is_choice(key, text);
    case Kind::addresses:
      return is_address(text);
    default:
      return is_plain_text(text);
  }
}

Read read_numbers(const Key& key, const Json& json) {
  std::vector<std::int64_t> numbers;
  for (const Json& item : json.items) {
    const auto number = item.kind == Json::Kind::number ? number_within(key.limits, item.text) : std::nullopt;
    if (!number) return objection(key, describe_json(item));
    numbers.push_back(*number);
  }
  return numbers;
}

Read read_texts(const Key& key, const Json& json) {
  std::vector<std::string> texts;
  for (const Json& item : json.items) {
    if (item.kind != Json::Kind::text || !fits_in_list(key, item.text)) return objection(key, describe_json(item));
    if (key.kind == Kind::choices && std::find(texts.begin(), texts.end(), item.text) != texts.end()) {
      return objection(key, describe_json(item) + " twice");
    }
    texts.push_back(item.text);
  }
  return texts;
}

Read read_mounts(const Key& key, const Json& json) {
  constexpr Key addresses{.name = "rdma_dev_addr_list", .kind = Kind::addresses};
  MountTable mounts;
  for (const JsonMember& line : json.members) {
    if (line.name.empty() || line.name[0] != '/' || !is_plain_text(line.name)) {
      return objection(key, quoted(line.name) + " as a mount point");
    }
    MountAddresses& mount = mounts.lines.emplace_back();
    mount.mount = line.name;
    if (line.value.kind != Json::Kind::object) return objection(key, describe_json(line.value));
    for (const JsonMember& member : line.value.members) {
      if (member.name != addresses.name) return objection(key, quoted(member.name) + " in it");
      if (member.value.kind != Json::Kind::array) return objection(key, describe_json(member.value));
      Read list = read_texts(addresses, member.value);
      if (auto* const refused = std::get_if<Objection>(&list)) return std::move(*refused);
      mount.addresses = std::get<std::vector<std::string>>(std::get<Value>(std::move(list)));
    }
  }
  return mounts;
}

bool has_kind(const Json& json, Json::Kind kind) {
  return json.kind == kind;
}

std::optional<bool> parse_flag(std::string_view word) {
  for (const std::string_view yes : {"1", "true", "yes", "on"}) {
    if (same_word(word, yes)) return true;
  }
  for (const std::string_view no : {"0", "false", "no", "off"}) {
    if (same_word(word, no)) return false;
  }
  return std::nullopt;
}

struct Writer {
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(const std::string& text) const { return quoted(text); }
  std::string operator()(const MountAddresses& mount) const {
    return quoted(mount.mount) + ": {\"rdma_dev_addr_list\": " + (*this)(mount.addresses) + "}";
  }
  std::string operator()(const MountTable& mounts) const { return joined(mounts.lines, '{', '}'); }
  template <typename Item>
  std::string operator()(const std::vector<Item>& items) const {
    return joined(items, '[', ']');
  }
  template <typename Item>
  std::string joined(const std::vector<Item>& items, char open, char close) const {
    std::string text(1, open);
    for (const Item& item : items) text += (text.size() > 1 ? ", " : "") + (*this)(item);
    return text + close;
  }
};

Value value_of_row(const Key& key, std::string_view text) {
  return std::get<Value>(read_value(key, std::get<Json>(parse_json(text))));
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view text) noexcept {
  for (std::size_t i = 0; i < level_names.size(); ++i) {
    if (same_word(level_names[i], text)) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

std::variant<Value, Objection> read_value(const Key& key, const Json& json) {
  switch (key.kind) {
    case Kind::flag:
      if (has_kind(json, Json::Kind::boolean)) return json.boolean;
      break;
    case Kind::number:
      if (!has_kind(json, Json::Kind::number)) break;
      if (const auto number = number_within(key.limits, json.text)) return *number;
      break;
    case Kind::level:
      if (!has_kind(json, Json::Kind::number) && !has_kind(json, Json::Kind::text)) break;
      if (auto level = level_from(json.text)) return std::move(*level);
      break;
    case Kind::text:
    case Kind::choice:
    case Kind::hex:
    case Kind::links:
      if (has_kind(json, Json::Kind::text) && fits_single(key, json.text)) return json.text;
      break;
    case Kind::numbers:
      if (has_kind(json, Json::Kind::array)) return read_numbers(key, json);
      break;
    case Kind::texts:
    case Kind::choices:
    case Kind::addresses:
      if (has_kind(json, Json::Kind::array)) return read_texts(key, json);
      break;
    case Kind::mounts:
      if (has_kind(json, Json::Kind::object)) return read_mounts(key, json);
      break;
  }
  return objection(key, describe_json(json));
}

std::variant<Value, Objection> read_word(const Key& key, std::string_view word) {
  if (key.kind == Kind::flag) {
    if (const auto flag = parse_flag(word)) return *flag;
    return Objection("takes 1 or 0, not " + quoted(word));
  }
  Json json;
  json.kind = key.kind == Kind::number ? Json::Kind::number : Json::Kind::text;
  json.text = word;
  return read_value(key, json);
}

Value standard_value(const Key& key) {
  return value_of_row(key, key.standard);
}

bool is_stock(const Key& key, const Value& value) {
  return value == standard_value(key) || (!key.also_stock.empty() && value == value_of_row(key, key.also_stock));
}

std::string to_json(const Value& value) {
  return std::visit(Writer{}, value);
}

std::string describe_kind(const Key& key) {
  switch (key.kind) {
    case Kind::flag:
      return "true or false";
    case Kind::number:
      return "a whole number, " + describe_limits(key.limits);
    case Kind::level:
      return "NOTICE, ERROR, WARN, INFO, DEBUG or TRACE, or their number from 0 to 5";
    case Kind::text:
      return "a text";
    case Kind::choice:
      return listed(split(key.choices));
    case Kind::hex:
      return "a text of up to 8 hexadecimal digits after 0x";
    case Kind::links:
      return "auto, own, lend or ordinals of GPUs, 0 to " + std::to_string(most_gpus - 1) + ", as 0,2";
    case Kind::numbers:
      return "a list of whole numbers, " + describe_limits(key.limits);
    case Kind::texts:
      return "a list of texts";
    case Kind::choices:
      return "a list of " + listed(split(key.choices)) + ", each at most once";
    case Kind::addresses:
      return "a list of IPv4 addresses";
    case Kind::mounts:
      return R"(an object of mount points, each with {"rdma_dev_addr_list": [addresses]})";
  }
  return {};
}

}  // namespace sluice::config
