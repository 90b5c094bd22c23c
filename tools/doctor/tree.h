// SPDX-License-Identifier: Apache-2.0
// Reading a machine: its own files, or those of a recorded tree. What is missing or unreadable is "it does not tell".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "facts/root.h"

namespace sluice::doctor {

class Tree {
 public:
  explicit Tree(facts::Root root) : root_(std::move(root)) {}

  const facts::Root& root() const { return root_; }
  bool is_the_machine() const { return root_.is_the_machine(); }

  std::string text(const std::string& path) const;   // "" where it cannot be read
  std::string value(const std::string& path) const;  // the first line, trimmed
  std::optional<std::int64_t> number(const std::string& path) const;
  std::vector<std::string> names(const std::string& folder) const;
  std::string link(const std::string& path) const;  // the last component of where it leads; "" for no link
  bool has(const std::string& path) const;
  // Where a path leads with every link followed, as a path of the tree; "" where it leads nowhere.
  std::string real(const std::string& path) const;

 private:
  facts::Root root_;
};

// "folder/name".
std::string below(std::string folder, std::string_view name);

// Pieces of a text; empty ones are left out.
std::vector<std::string> split(std::string_view text, char separator);
std::vector<std::string> words(std::string_view text);
std::optional<std::int64_t> to_number(std::string_view text, int base = 10);
bool contains(std::string_view text, std::string_view part);
std::string joined(const std::vector<std::string>& parts, std::string_view separator);

// "6.17.0-20" is {6, 17, 0}; what is no number ends it.
struct Version {
  std::vector<std::int64_t> parts;

  explicit Version(std::string_view text);
  bool known() const { return !parts.empty(); }
  // False for an unknown version, so that nothing is claimed of it.
  bool at_least(std::int64_t first, std::int64_t second = 0, std::int64_t third = 0) const;
  bool before(std::int64_t first, std::int64_t second = 0, std::int64_t third = 0) const;
};

}  // namespace sluice::doctor
