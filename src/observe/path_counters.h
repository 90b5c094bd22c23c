// SPDX-License-Identifier: Apache-2.0
// What each path has carried for which reason. Always running: a relaxed addition or two per transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/outcome.h"
#include "base/strong.h"
#include "base/thread_number.h"
#include "sluice.h"

namespace sluice::observe {

// Transfers that went one way for one reason.
struct Way {
  sluice_path_t path;
  sluice_reason_t reason;
  base::Direction direction;

  friend bool operator==(const Way&, const Way&) = default;
};
struct Tally {
  std::uint64_t transfers = 0;
  std::uint64_t bytes = 0;
  std::uint64_t errors = 0;

  void add(base::Outcome outcome) noexcept {
    ++transfers;
    bytes += outcome.count();
    if (!outcome.ok()) ++errors;
  }
};

void count_path(const Way& way, const Tally& tally, std::size_t thread = base::thread_number()) noexcept;
void count_path(sluice_path_t path, sluice_reason_t reason, base::Direction direction, base::Outcome outcome) noexcept;

// The entries that are not all zero, by path, then reason.
std::vector<sluice_path_counter_t> path_counters();

}  // namespace sluice::observe
