// Who carried bytes between host and device. Always counted: one relaxed addition a request.
#pragma once

#include <cstdint>

#include "sluice.h"

namespace sluice::observe {

enum class CarriedBy : std::uint8_t {
  kernel,             // requests whose bytes the gather kernel fetched
  kernel_called_off,  // launches taken back because the device did not begin them soon
  copy_engine,        // requests through a staging ring by the copy engine
  slab,               // requests, or parts of them, through one slab, a copy after the other
};

void count_carrier(CarriedBy who) noexcept;
sluice_carrier_counts_t carrier_counters() noexcept;

}  // namespace sluice::observe
