// Who carried bytes between host and device. Always counted: one relaxed addition a request.
#pragma once

#include <cstdint>

#include "sluice.h"
#include "sluice_stats.h"

namespace sluice::observe {

enum class CarriedBy : std::uint8_t {
  kernel = SLUICE_STATS_KERNEL,                        // requests whose bytes the gather kernel fetched
  kernel_called_off = SLUICE_STATS_KERNEL_CALLED_OFF,  // launches taken back because the device did not begin them soon
  copy_engine = SLUICE_STATS_COPY_ENGINE,              // requests through a staging ring by the copy engine
  slab = SLUICE_STATS_SLAB,  // requests, or parts of them, through one slab, a copy after the other
};

void count_carrier(CarriedBy who) noexcept;
sluice_carrier_counts_t carrier_counters() noexcept;

}  // namespace sluice::observe
