// SPDX-License-Identifier: Apache-2.0
// Reading the page: "## Section", "### `name`", and list items "- Why:", "- Remedy:", "- When:" that may go on over
// indented lines.
#include "route/paths_page.h"

#include <fstream>
#include <string_view>

namespace sluice::route {

namespace {

bool take_prefix(std::string_view& line, std::string_view prefix) {
  if (line.substr(0, prefix.size()) != prefix) return false;
  line.remove_prefix(prefix.size());
  return true;
}

}  // namespace

PathsPage read_paths_page() {
  PathsPage page;
  std::vector<PageEntry>* section = nullptr;
  std::string* item = nullptr;
  std::ifstream file(SLUICE_DOCS "/reference/paths.md");
  for (std::string text; std::getline(file, text);) {
    std::string_view line = text;
    if (take_prefix(line, "## ")) {
      section = line == "Paths" ? &page.paths : line == "Reasons" ? &page.reasons : nullptr;
      item = nullptr;
    } else if (section != nullptr && take_prefix(line, "### `")) {
      section->push_back({std::string(line.substr(0, line.find('`'))), "", "", ""});
      item = nullptr;
    } else if (section != nullptr && !section->empty() && take_prefix(line, "- ")) {
      PageEntry& entry = section->back();
      item = take_prefix(line, "Why: ")      ? &entry.why
             : take_prefix(line, "Remedy: ") ? &entry.remedy
             : take_prefix(line, "When: ")   ? &entry.when
                                             : nullptr;
      if (item != nullptr) *item = line;
    } else if (item != nullptr && take_prefix(line, "  ")) {
      *item += " " + std::string(line);
    } else {
      item = nullptr;
    }
  }
  return page;
}

}  // namespace sluice::route
