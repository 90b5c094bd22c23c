// SPDX-License-Identifier: Apache-2.0
// docs/reference/paths.md, read back.
#pragma once

#include <string>
#include <vector>

namespace sluice::route {

struct PageEntry {
  std::string name;
  std::string why;
  std::string remedy;
  std::string when;
};

struct PathsPage {
  std::vector<PageEntry> paths;
  std::vector<PageEntry> reasons;
};

// The entries of the sections "Paths" and "Reasons", in the order of the page. Empty where the page is not there.
PathsPage read_paths_page();

}  // namespace sluice::route
