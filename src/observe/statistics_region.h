// SPDX-License-Identifier: Apache-2.0
// The memory that the statistics are kept in: the process's own at first; when they run for the first time it moves
// into a memfd, where others may look at it (sluice_stats.h). Where no memfd can be had it stays, and no other
// process sees it.
#pragma once

#include <atomic>
#include <cstdint>

#include "sluice_stats.h"

namespace sluice::observe {

// One load. The counter may hold the reference for as long as that takes, across a move and a fork as well.
sluice_stats_region& statistics_region() noexcept;

// A word of it, as all that share it have to touch it.
inline std::atomic_ref<std::uint64_t> word(std::uint64_t& counter) noexcept {
  return std::atomic_ref<std::uint64_t>(counter);
}

// Moves the statistics to where others see them. For the control plane, under a lock of the caller's that keeps changes
// of the head out; counters that are added to meanwhile may lose that. Says in the log why it could not be done. Does
// nothing the second time.
void show_statistics_region() noexcept;

// In a forked child, when it has one thread: the parent's region is left to the parent, and the child has one of its
// own, shown when the parent's was: the head is copied, the counters are zero.
void renew_statistics_region_in_child() noexcept;

}  // namespace sluice::observe
