// SPDX-License-Identifier: Apache-2.0
// Small readers over facts/read.h, and cutting text into pieces.
#include "doctor/tree.h"

#include <charconv>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "facts/read.h"

namespace sluice::doctor {

std::string Tree::text(const std::string& path) const {
  return facts::read_text(root_.at(path)).value_or("");
}

std::string Tree::value(const std::string& path) const {
  return facts::read_value(root_.at(path)).value_or("");
}

std::optional<std::int64_t> Tree::number(const std::string& path) const {
  const std::string text = value(path);
  if (text.starts_with("0x")) return to_number(std::string_view(text).substr(2), 16);
  return to_number(text);
}

std::vector<std::string> Tree::names(const std::string& folder) const {
  return facts::list_names(root_.at(folder));
}

std::string Tree::link(const std::string& path) const {
  const std::optional<std::string> target = facts::read_link(root_.at(path));
  return target ? std::string(facts::last_component(*target)) : std::string();
}

bool Tree::has(const std::string& path) const {
  return facts::exists(root_.at(path));
}

std::string Tree::real(const std::string& path) const {
  const auto resolved = [](const std::string& from) {
    const std::unique_ptr<char, decltype(&std::free)> to(::realpath(from.c_str(), nullptr), &std::free);
    return to ? std::string(to.get()) : std::string();
  };
  std::string full = resolved(root_.at(path));
  if (root_.is_the_machine() || full.empty()) return full;
  const std::string top = resolved(root_.at("/"));
  return full.starts_with(top) ? full.substr(top.size()) : std::string();
}

std::string below(std::string folder, std::string_view name) {
  folder.append("/").append(name);
  return folder;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    if (end != 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

std::vector<std::string> words(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  std::vector<std::string> found;
  std::size_t begin = text.find_first_not_of(blanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = text.find_first_of(blanks, begin);
    found.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    begin = text.find_first_not_of(blanks, end);
  }
  return found;
}

std::optional<std::int64_t> to_number(std::string_view text, int base) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

Version::Version(std::string_view text) {
  while (!text.empty() && parts.size() < 4) {
    std::int64_t part = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), part);
    if (error != std::errc()) return;
    parts.push_back(part);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty() || text.front() != '.') return;
    text.remove_prefix(1);
  }
}

bool Version::at_least(std::int64_t first, std::int64_t second, std::int64_t third) const {
  const auto part = [this](std::size_t at) { return at < parts.size() ? parts[at] : 0; };
  return known() && std::tuple(part(0), part(1), part(2)) >= std::tuple(first, second, third);
}

bool Version::before(std::int64_t first, std::int64_t second, std::int64_t third) const {
  return known() && !at_least(first, second, third);
}

}  // namespace sluice::doctor
