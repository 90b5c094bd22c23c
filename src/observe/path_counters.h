// SPDX-License-Identifier: Apache-2.0
// What each path has carried for which reason. Always running: two additions a transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/outcome.h"
#include "base/strong.h"
#include "observe/thread_slot.h"
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

struct Transfers;
// `ended` are what has ended meanwhile, for the statistics alone (statistics.h); null: nothing.
void count_path(const Way& way, const Tally& tally, ThreadSlot thread = thread_slot(),
                const Transfers* ended = nullptr) noexcept;
void count_path(sluice_path_t path, sluice_reason_t reason, base::Direction direction, base::Outcome outcome) noexcept;

// The entries that are not all zero, by path, then reason.
std::vector<sluice_path_counter_t> path_counters();

}  // namespace sluice::observe
