// SPDX-License-Identifier: Apache-2.0
// docs/reference/configuration.md and the table of keys say the same. To write the page anew:
//   SLUICE_WRITE_PAGES=1 unit_tests --gtest_filter='ConfigurationPage.*'
#include "config/page.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "config/keys.h"

namespace sluice::config {
namespace {

constexpr const char* page_file = SLUICE_DOCS "/reference/configuration.md";

std::string whole_page() {
  std::stringstream text;
  text << std::ifstream(page_file).rdbuf();
  return text.str();
}

TEST(ConfigurationPage, AgreesWithTheTableOfKeys) {
  const std::string page = whole_page();
  const std::string begins = page_begins;
  const auto begin = page.find(begins);
  const auto end = page.find(page_ends);
  ASSERT_NE(begin, std::string::npos) << page_file << " has lost its marker " << page_begins;
  ASSERT_NE(end, std::string::npos) << page_file << " has lost its marker " << page_ends;
  const auto start = begin + begins.size();
  if (std::getenv("SLUICE_WRITE_PAGES") != nullptr) {
    std::ofstream(page_file) << page.substr(0, start) << generated_page() << page.substr(end);
    return;
  }
  EXPECT_EQ(page.substr(start, end - start), generated_page())
      << "write it anew: SLUICE_WRITE_PAGES=1 build/release/bin/unit_tests --gtest_filter='ConfigurationPage.*'";
}

TEST(ConfigurationPage, ShowsEveryKeyOnce) {
  const std::string page = generated_page();
  for (const Key& key : keys) {
    const std::string row = "\n| `" + std::string(key.name) + "` |";
    const auto first = page.find(row);
    EXPECT_NE(first, std::string::npos) << key.name;
    EXPECT_EQ(page.find(row, first + 1), std::string::npos) << key.name;
  }
}

}  // namespace
}  // namespace sluice::config
