// SPDX-License-Identifier: Apache-2.0
// For options that CLI11 turns into a number: it takes "-1" for one without a sign, and words of its own to refuse it.
#pragma once

#include <algorithm>
#include <string>

namespace sluice::tools {

// What CLI11 says of text that is no such number of at most nine digits; "" when it is one.
inline std::string whole_number(const std::string& text, const char* allowed) {
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && !text.empty() && text.size() < 10 ? std::string() : std::string("takes ") + allowed;
}

inline std::string gpu_number(const std::string& text) {
  return whole_number(text, "the number of a GPU, counted from 0");
}
inline std::string count_number(const std::string& text) {
  constexpr const char* allowed = "a whole number, 1 or more";
  return text.find_first_not_of('0') == std::string::npos ? whole_number("", allowed) : whole_number(text, allowed);
}

}  // namespace sluice::tools
