// SPDX-License-Identifier: Apache-2.0
// The texts of paths and reasons, and that docs/reference/paths.md holds the same.
#include "route/reasons.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "route/paths_page.h"

namespace sluice::route {
namespace {

std::vector<std::string> names_in(const std::vector<PageEntry>& entries) {
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const PageEntry& entry : entries) names.push_back(entry.name);
  return names;
}

bool is_sentence(const std::string& text) {
  return !text.empty() && std::isupper(static_cast<unsigned char>(text.front())) != 0 && text.back() == '.' &&
         text.find('\n') == std::string::npos;
}

TEST(ReasonText, ExistsForEveryReasonAndReadsAsSentences) {
  std::set<std::string> names;
  std::set<std::string> sentences;
  for (int value = 0; value < SLUICE_REASON_COUNT; ++value) {
    const ReasonText* text = reason_text(static_cast<Reason>(value));
    ASSERT_NE(text, nullptr) << value;
    EXPECT_TRUE(names.insert(text->name).second) << text->name;
    EXPECT_TRUE(sentences.insert(text->sentence).second) << text->sentence;
    EXPECT_TRUE(is_sentence(text->sentence)) << text->sentence;
    EXPECT_TRUE(is_sentence(text->remedy)) << text->remedy;
    for (const char* at = text->name; *at != '\0'; ++at)
      EXPECT_TRUE(std::islower(*at) || std::isdigit(*at) || *at == '_');
  }
}

TEST(ReasonText, FollowsTheOrderOfTheEnumeration) {
  EXPECT_STREQ(reason_text(SLUICE_REASON_HOST_MEMORY)->name, "host_memory");
  EXPECT_STREQ(reason_text(SLUICE_REASON_SOFT_GPU)->name, "soft_gpu");
  EXPECT_STREQ(reason_text(SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM)->name, "unsupported_file_system");
  EXPECT_STREQ(reason_text(SLUICE_REASON_NO_DIRECT_PROVIDER)->name, "no_direct_provider");
  EXPECT_STREQ(reason_text(SLUICE_REASON_CALLER_OPERATIONS)->name, "caller_operations");
}

TEST(ReasonText, IsNothingOutsideTheEnumeration) {
  EXPECT_EQ(reason_text(SLUICE_REASON_COUNT), nullptr);
}

TEST(PathName, ExistsForEveryPath) {
  EXPECT_STREQ(path_name(SLUICE_PATH_POSIX), "posix");
  EXPECT_STREQ(path_name(SLUICE_PATH_P2PDMA), "p2pdma");
  EXPECT_STREQ(path_name(SLUICE_PATH_NVFS), "nvfs");
  EXPECT_STREQ(path_name(SLUICE_PATH_USERSPACE), "userspace");
  EXPECT_STREQ(path_name(SLUICE_PATH_RDMA), "rdma");
  // 7 is the largest number that this enumeration can hold in C++.
  for (const int value : {5, 6, 7}) EXPECT_EQ(path_name(static_cast<Path>(value)), nullptr) << value;
}

TEST(PathsPage, ListsEachPathInItsOrder) {
  std::vector<std::string> paths;
  paths.reserve(SLUICE_PATH_COUNT);
  for (int value = 0; value < SLUICE_PATH_COUNT; ++value) paths.emplace_back(path_name(static_cast<Path>(value)));
  EXPECT_EQ(names_in(read_paths_page().paths), paths);
}

TEST(PathsPage, ListsEachReasonOnce) {
  std::vector<std::string> on_page = names_in(read_paths_page().reasons);
  std::vector<std::string> in_library;
  in_library.reserve(SLUICE_REASON_COUNT);
  for (int value = 0; value < SLUICE_REASON_COUNT; ++value) {
    in_library.emplace_back(reason_text(static_cast<Reason>(value))->name);
  }
  std::sort(on_page.begin(), on_page.end());
  std::sort(in_library.begin(), in_library.end());
  EXPECT_EQ(on_page, in_library);
}

TEST(PathsPage, HoldsTheLibrarysTexts) {
  for (const PageEntry& entry : read_paths_page().reasons) {
    for (int value = 0; value < SLUICE_REASON_COUNT; ++value) {
      const ReasonText* text = reason_text(static_cast<Reason>(value));
      if (entry.name != text->name) continue;
      EXPECT_EQ(entry.why, text->sentence) << entry.name;
      EXPECT_EQ(entry.remedy, text->remedy) << entry.name;
      EXPECT_FALSE(entry.when.empty()) << entry.name << " says not when it holds";
    }
  }
}

}  // namespace
}  // namespace sluice::route
