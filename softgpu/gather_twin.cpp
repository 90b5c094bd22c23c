// SPDX-License-Identifier: Apache-2.0
// The twin of src/gpu/kernels/gather.cu.
#include "kernels.h"
#include "ticketed.h"
#include "twins.h"

namespace sluice::softgpu::twin {

// The parameters are in the kernel's order.
void gather(const Launch& launch) {
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
  carry_ticketed(launch, given, [&](std::uint64_t chunk, std::uint64_t slot, std::uint32_t length) {
    const std::uint64_t into = chunk == 0 ? skip : 0;
    launch.copy(target + chunk * chunk_bytes + into, slots + slot * stride + into, length);
  });
}

}  // namespace sluice::softgpu::twin
