// What each path has carried for which reason. Always running: a relaxed addition or two per transfer.
#pragma once

#include <cstdint>
#include <vector>

#include "base/outcome.h"
#include "base/strong.h"
#include "sluice.h"

namespace sluice::observe {

void count_path(sluice_path_t path, sluice_reason_t reason, base::Direction direction, base::Outcome outcome) noexcept;

// The entries that are not all zero, by path, then reason.
std::vector<sluice_path_counter_t> path_counters();

}  // namespace sluice::observe
