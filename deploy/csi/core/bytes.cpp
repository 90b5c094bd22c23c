// SPDX-License-Identifier: Apache-2.0
#include "core/bytes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "core/refusal.h"

namespace sluice::csi {

std::optional<std::int64_t> parse_quantity(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::int64_t>, 11> units = {{{"", 1},
                                                                                       {"k", 1000},
                                                                                       {"Ki", kibibyte},
                                                                                       {"M", 1000000},
                                                                                       {"Mi", mebibyte},
                                                                                       {"G", 1000000000},
                                                                                       {"Gi", gibibyte},
                                                                                       {"T", 1000000000000},
                                                                                       {"Ti", 1024 * gibibyte},
                                                                                       {"P", 1000000000000000},
                                                                                       {"Pi", 1048576 * gibibyte}}};
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  for (const auto& [name, factor] : units) {
    if (name != unit) continue;
    if (number > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
    return number * factor;
  }
  return std::nullopt;
}

std::int64_t size_for(const Range& range, const SizeRule& rule) {
  if (range.required < 0 || range.limit < 0) {
    refuse(Code::out_of_range, "A size is negative. Ask for zero or more bytes.");
  }
  if (range.limit > 0 && range.required > range.limit) {
    refuse(Code::out_of_range,
           fmt::format("{} bytes are required and at most {} allowed. Raise the limit.", range.required, range.limit));
  }
  std::int64_t wanted = range.required > 0 ? range.required : rule.usual;
  if (range.required == 0 && range.limit > 0 && wanted > range.limit) wanted = range.limit / rule.step * rule.step;
  if (wanted < rule.least) wanted = rule.least;
  if (wanted > std::numeric_limits<std::int64_t>::max() - rule.step) {
    refuse(Code::out_of_range, fmt::format("{} bytes are more than any volume has.", wanted));
  }
  const std::int64_t size = (wanted + rule.step - 1) / rule.step * rule.step;
  if (range.limit > 0 && size > range.limit) {
    refuse(Code::out_of_range, fmt::format("The smallest size that fits is {} bytes, and at most {} are allowed. "
                                           "Sizes are multiples of {} bytes.",
                                           size, range.limit, rule.step));
  }
  return size;
}

bool fits(std::int64_t size, const Range& range) {
  return size >= range.required && (range.limit == 0 || size <= range.limit);
}

}  // namespace sluice::csi
