// SPDX-License-Identifier: Apache-2.0
// The part of docs/reference/configuration.md that is made from the table of keys.
#pragma once

#include <string>

namespace sluice::config {

// Between the two markers of the page: a table for each section, the other spellings, the variables.
std::string generated_page();

inline constexpr const char* page_begins = "<!-- keys: begin -->\n";
inline constexpr const char* page_ends = "<!-- keys: end -->\n";

}  // namespace sluice::config
