// SPDX-License-Identifier: Apache-2.0
// Sizes, rates and names as people write and read them.
#include "common/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "common/error.h"

namespace sluice::tools {
namespace {

constexpr std::array<std::string_view, 5> unit_names = {"bytes", "KiB", "MiB", "GiB", "TiB"};
constexpr std::string_view unit_letters = "KMGT";

bool is_unit_tail(std::string_view tail) {
  return tail.empty() || tail == "B" || tail == "b" || tail == "iB" || tail == "ib";
}

// The exponent of 1024 that a suffix stands for.
std::optional<int> unit_power(std::string_view suffix) {
  if (suffix.empty() || suffix == "B" || suffix == "b") return 0;
  const char upper =
      suffix.front() >= 'a' && suffix.front() <= 'z' ? static_cast<char>(suffix.front() - 'a' + 'A') : suffix.front();
  const std::size_t letter = unit_letters.find(upper);
  if (letter == std::string_view::npos || !is_unit_tail(suffix.substr(1))) return std::nullopt;
  return static_cast<int>(letter) + 1;
}

// Bytes of the character that a text begins with; 0 for a control character and for what is no UTF-8.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Forms that are longer than needed, surrogates, what lies past U+10FFFF, and the control characters of U+0080 on.
  const unsigned char second = byte(1);
  const bool refused = (first == 0xc2 && second < 0xa0) || (first == 0xe0 && second < 0xa0) ||
                       (first == 0xed && second >= 0xa0) || (first == 0xf0 && second < 0x90) ||
                       (first == 0xf4 && second >= 0x90);
  return refused ? 0 : length;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  std::string_view suffix = digits == std::string_view::npos ? std::string_view{} : text.substr(digits);
  if (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  const std::optional<int> power = unit_power(suffix);
  if (!power || number.empty()) return std::nullopt;

  const char* const end = number.data() + number.size();
  std::uint64_t whole = 0;
  if (const auto [stop, error] = std::from_chars(number.data(), end, whole); error == std::errc{} && stop == end) {
    const int shift = 10 * *power;
    if (shift > 0 && whole > (UINT64_MAX >> shift)) return std::nullopt;
    return whole << shift;
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(number.data(), end, value);
  const double bytes = std::ldexp(value, 10 * *power);
  if (error != std::errc{} || stop != end || bytes >= std::ldexp(1.0, 63)) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(bytes));
}

std::uint64_t size_option(std::string_view option, std::string_view text) {
  if (const std::optional<std::uint64_t> size = parse_size(text)) return *size;
  throw ToolError(fmt::format("{} wants a size, and \"{}\" is none.", option, printable(text)),
                  "Write a number of bytes, or a number with K, M, G or T: 4096, 64K, 1.5G.", 2);
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < unit_names.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, unit_names[unit]);
}

std::string format_rate(std::uint64_t bytes, double seconds) {
  const double rate = static_cast<double>(bytes) / seconds;
  const bool has_rate = seconds > 0 && rate < std::ldexp(1.0, 64);
  return has_rate ? format_bytes(static_cast<std::uint64_t>(rate)) + "/s" : "-";
}

std::string printable(std::string_view text) {
  std::string safe(text);
  for (std::size_t at = 0; at < safe.size();) {
    const std::size_t length = character_length(std::string_view(safe).substr(at));
    if (length == 0) safe[at] = '?';
    at += std::max<std::size_t>(length, 1);
  }
  return safe;
}

std::string system_words(int error) {
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace sluice::tools
