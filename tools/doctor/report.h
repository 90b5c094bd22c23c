// SPDX-License-Identifier: Apache-2.0
// What was found, in words, and what it means for the exit status.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "doctor/finding.h"
#include "doctor/findings.h"

namespace sluice::doctor {

using Values = std::vector<std::pair<std::string_view, std::string>>;

// A finding with the names in its texts replaced.
struct Found {
  const Finding* row;
  std::string sign;
  std::string cause;
  std::string remedy;
};

// What --expect can ask for.
enum class Ability : std::uint8_t { gpu, p2pdma, nvidia_fs, rdma, uring };
inline constexpr std::size_t ability_count = 5;
std::string_view name_of(Ability ability);

class Report {
 public:
  // Reports the finding of the table at `index` (finding_at("...")). The same words twice count once.
  void add(std::size_t index, const Values& values = {});
  // A line about what is there, whether or not anything is wrong with it.
  void fact(Section section, const std::string& line);
  void can(Ability ability) { abilities_.insert(ability); }

  bool has(std::size_t index) const;
  bool is_able(Ability ability) const { return abilities_.contains(ability); }
  // Worst first; among equals in the order of the table.
  std::vector<Found> by_harm() const;
  const std::vector<std::string>& facts(Section section) const;

  // 0 fine, 1 degraded, 2 broken, 3 no GPU.
  int status() const;

 private:
  std::vector<Found> found_;
  std::map<Section, std::vector<std::string>> facts_;
  std::set<Ability> abilities_;
};

}  // namespace sluice::doctor
