// SPDX-License-Identifier: Apache-2.0
// The twins of src/gpu/kernels/gather.cu and relay.cu.
#include <cstdint>
#include <limits>

#include "kernels.h"
#include "ticketed.h"
#include "twins.h"

namespace sluice::softgpu::twin {

namespace {

// The parameters are in the kernels' order. Chunks go round in so many slots of the target.
void carry(const Launch& launch, Told told, std::uint64_t target_slots) {
  const auto slots = launch.parameter<std::uint64_t>(0);
  const auto target = launch.parameter<std::uint64_t>(1);
  const auto chunk_bytes = launch.parameter<std::uint32_t>(6);
  const auto stride = launch.parameter<std::uint32_t>(7);
  const auto skip = launch.parameter<std::uint32_t>(8);
  const Ticketed given{.tickets = launch.parameter<std::uint64_t>(2),
                       .completed = launch.parameter<std::uint64_t>(3),
                       .words = launch.parameter<std::uint64_t>(4),
                       .chunks = launch.parameter<std::uint32_t>(9),
                       .silent_up_to = launch.parameter<std::uint32_t>(10),
                       .first_number = launch.parameter<std::uint32_t>(11),
                       .launch_id = launch.parameter<std::uint32_t>(12)};
  carry_ticketed(launch, given, told, [&](std::uint64_t chunk, std::uint64_t slot) {
    const std::uint64_t into = chunk == 0 ? skip : 0;
    return Way{.to = target + chunk % target_slots * chunk_bytes + into, .from = slots + slot * stride + into};
  });
}

}  // namespace

void gather(const Launch& launch) {
  carry(launch, Told::loaded, std::numeric_limits<std::uint64_t>::max());
}

void relay(const Launch& launch) {
  carry(launch, Told::in_place, launch.parameter<std::uint32_t>(13));
}

}  // namespace sluice::softgpu::twin
