// SPDX-License-Identifier: Apache-2.0
// Small readers of procfs, sysfs and text files. What is missing or unreadable is "it does not tell", never a failure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::facts {

// A whole file, whatever size it claims to have; nothing where it cannot be read to its end.
std::optional<std::string> read_text(const std::string& path);

// The first line of a file without the white space around it: how sysfs hands out a value.
std::optional<std::string> read_value(const std::string& path);

// Which of these texts a file, too large to keep, holds anywhere.
std::vector<bool> file_contains(const std::string& path, const std::vector<std::string_view>& wanted);

// The text of a symbolic link.
std::optional<std::string> read_link(const std::string& path);

// The names in a folder, sorted, without "." and ".."; none where it cannot be read.
std::vector<std::string> list_names(const std::string& path);

bool exists(const std::string& path);

// The part behind the last slash, and the part before it.
std::string_view last_component(std::string_view path);
std::string_view parent_path(std::string_view path);

// The text without spaces, tabs and line ends at both sides.
std::string_view trimmed(std::string_view text);

}  // namespace sluice::facts
