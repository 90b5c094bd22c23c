// SPDX-License-Identifier: Apache-2.0
// Words for findings; order; exit status.
#include "doctor/report.h"

#include <algorithm>
#include <array>

namespace sluice::doctor {
namespace {

// Values come from files of the machine: nothing of them may move a terminal's cursor.
std::string shown(std::string_view value) {
  std::string text(value);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text;
}

std::string filled(std::string_view text, const Values& values) {
  std::string full;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    const std::size_t close = open == std::string_view::npos ? open : text.find('}', open);
    full += text.substr(0, close == std::string_view::npos ? close : open);
    if (close == std::string_view::npos) break;
    const std::string_view name = text.substr(open + 1, close - open - 1);
    const auto value =
        std::find_if(values.begin(), values.end(), [name](const auto& pair) { return pair.first == name; });
    full += value == values.end() || value->second.empty() ? "?" : shown(value->second);
    text.remove_prefix(close + 1);
  }
  return full;
}

}  // namespace

std::string_view name_of(Harm harm) {
  constexpr std::array<std::string_view, 5> names = {"broken", "no GPU", "degraded", "advice", "fine"};
  return names[static_cast<std::size_t>(harm)];
}

std::string_view name_of(Section section) {
  constexpr std::array<std::string_view, section_count> names = {"gpu",     "nvidia-fs", "p2pdma",   "storage",
                                                                 "fabrics", "rdma",      "vm",       "container",
                                                                 "uring",   "config",    "topology", "trial"};
  return names[static_cast<std::size_t>(section)];
}

std::string_view name_of(Ability ability) {
  constexpr std::array<std::string_view, ability_count> names = {"gpu", "p2pdma", "nvidia-fs", "rdma", "uring"};
  return names[static_cast<std::size_t>(ability)];
}

std::string words_about(const RdmaPair& pair) {
  if (pair.way == "dma-buf") return pair.proven ? pair.way : pair.way + ", as far as can be seen";
  if (pair.way != "none") return pair.way + ", since " + pair.against_dma_buf;
  const bool alike = pair.against_dma_buf == pair.against_peermem;
  return pair.way + ": " + pair.against_dma_buf + (alike ? "" : "; " + pair.against_peermem);
}

void Report::add(std::size_t index, const Values& values) {
  const Finding& row = findings.at(index);
  Found found{&row, filled(row.sign, values), filled(row.cause, values), filled(row.remedy, values)};
  const bool known = std::any_of(found_.begin(), found_.end(), [&found](const Found& other) {
    return other.row == found.row && other.sign == found.sign;
  });
  if (!known) found_.push_back(std::move(found));
}

void Report::fact(Section section, const std::string& line) {
  facts_[section].push_back(shown(line));
}

bool Report::has(std::size_t index) const {
  return std::any_of(found_.begin(), found_.end(),
                     [index](const Found& found) { return found.row == &findings.at(index); });
}

std::vector<Found> Report::by_harm() const {
  std::vector<Found> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Found& a, const Found& b) {
    return a.row->harm != b.row->harm ? a.row->harm < b.row->harm : a.row < b.row;
  });
  return sorted;
}

const std::vector<std::string>& Report::facts(Section section) const {
  static const std::vector<std::string> none;
  const auto found = facts_.find(section);
  return found == facts_.end() ? none : found->second;
}

int Report::status() const {
  int status = 0;
  for (const Found& found : found_) {
    if (found.row->harm == Harm::no_gpu) return 3;
    if (found.row->harm == Harm::broken) status = 2;
    if (found.row->harm == Harm::degraded) status = std::max(status, 1);
  }
  return status;
}

}  // namespace sluice::doctor
