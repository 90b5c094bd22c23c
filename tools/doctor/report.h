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

// A GPU, a network card, and how the card reaches the GPU's memory.
struct RdmaPair {
  std::string gpu;     // "0000:17:00.0"
  std::string device;  // "mlx5_0"
  std::string way;     // "dma-buf", "nvidia_peermem", "none"
  bool proven = false;
  bool needs_flush = false;
  std::string against_dma_buf;  // "" where nothing speaks against it
  std::string against_peermem;
};

// "dma-buf", "nvidia_peermem, since ...", "none: ...; ...".
std::string words_about(const RdmaPair& pair);

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

  void pair(RdmaPair pair) { pairs_.push_back(std::move(pair)); }

  bool has(std::size_t index) const;
  bool is_able(Ability ability) const { return abilities_.contains(ability); }
  // Worst first; among equals in the order of the table.
  std::vector<Found> by_harm() const;
  const std::vector<std::string>& facts(Section section) const;
  const std::vector<RdmaPair>& pairs() const { return pairs_; }

  // 0 fine, 1 degraded, 2 broken, 3 no GPU.
  int status() const;

 private:
  std::vector<Found> found_;
  std::map<Section, std::vector<std::string>> facts_;
  std::set<Ability> abilities_;
  std::vector<RdmaPair> pairs_;
};

}  // namespace sluice::doctor
