// SPDX-License-Identifier: Apache-2.0
// Plain searching.
#include "topology/words.h"

#include <algorithm>
#include <cctype>

namespace sluice::topology {

Words::Words(std::string_view text, char separator) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) all_.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::string Words::after(std::string_view beginning) const {
  for (const std::string& word : all_) {
    if (word.starts_with(beginning)) return word.substr(beginning.size());
  }
  return {};
}

bool is_pci_address(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos || colon < 4 || name.size() != colon + 8) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool wants_colon = i == colon || i == colon + 3;
    const bool wants_dot = i == colon + 6;
    const char letter = name[i];
    if (wants_colon ? letter != ':'
        : wants_dot ? letter != '.'
                    : std::isxdigit(static_cast<unsigned char>(letter)) == 0) {
      return false;
    }
  }
  return true;
}

}  // namespace sluice::topology
