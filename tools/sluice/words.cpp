// SPDX-License-Identifier: Apache-2.0
#include "sluice/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/text.h"
#include "sluice/statuses.h"

namespace sluice::tools {
namespace {

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789.") == word.npos;
}

// Options of `trace` and `stats` whose value is the next word.
bool takes_word(std::string_view word) {
  return word == "-o" || word == "--output" || word == "--format";
}

// How many letters have to be changed, put in or taken out.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = i;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, corner + (a[i - 1] == b[j - 1] ? 0 : 1)});
      corner = above;
    }
  }
  return row.back();
}

}  // namespace

Words split(std::span<char*> words) {
  if (words.size() < 2) return {words, {}};
  if (std::strcmp(words[1], "report") == 0) {  // its own words are files
    std::size_t own = 0;
    while (own < words.size() && std::strcmp(words[own], "--") != 0) ++own;
    return {words.first(own), words.subspan(std::min(own + 1, words.size()))};
  }
  const bool traces = std::strcmp(words[1], "trace") == 0;
  const bool stats = std::strcmp(words[1], "stats") == 0 || traces;
  if (!stats && std::strcmp(words[1], "run") != 0) return {words, {}};
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (std::strcmp(words[i], "--") == 0) return {words.first(i), words.subspan(i + 1)};
    if (stats && takes_word(words[i])) {
      ++i;
      continue;
    }
    if (words[i][0] != '-' && !(stats && is_number(words[i]))) return {words.first(i), words.subspan(i)};
  }
  return {words, {}};
}

void want_subcommand(const CLI::App& app, std::string_view word) {
  std::string nearest;
  std::size_t best = word.size() / 2 + 1;
  for (const CLI::App* const each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_name() == word) return;
    const std::size_t away = distance(word, each->get_name());
    if (away < best) {
      best = away;
      nearest = each->get_name();
    }
  }
  throw ToolError(fmt::format("There is no subcommand {}.", printable(word)),
                  nearest.empty() ? "`sluice --help` lists them." : fmt::format("Did you mean: sluice {}?", nearest),
                  status_usage);
}

}  // namespace sluice::tools
