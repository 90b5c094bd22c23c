// SPDX-License-Identifier: Apache-2.0
// The twin of src/gpu/kernels/scatter.cu.
#include "kernels.h"
#include "ticketed.h"
#include "twins.h"

namespace sluice::softgpu::twin {

// The parameters are in the kernel's order.
void scatter(const Launch& launch) {
  const auto slots = launch.parameter<std::uint64_t>(0);
  const auto targets = launch.parameter<std::uint64_t>(1);
  const auto stride = launch.parameter<std::uint32_t>(6);
  const Ticketed given{.tickets = launch.parameter<std::uint64_t>(2),
                       .completed = launch.parameter<std::uint64_t>(3),
                       .words = launch.parameter<std::uint64_t>(4),
                       .chunks = launch.parameter<std::uint32_t>(7),
                       .silent_up_to = launch.parameter<std::uint32_t>(8),
                       .first_number = launch.parameter<std::uint32_t>(9),
                       .launch_id = launch.parameter<std::uint32_t>(10)};
  carry_ticketed(launch, given, Told::loaded, [&](std::uint64_t chunk, std::uint64_t slot) {
    const auto target = launch.word<std::uint64_t>(targets + 8 * chunk).load(std::memory_order_relaxed);
    return Way{.to = target, .from = slots + slot * stride + target % 16};
  });
}

}  // namespace sluice::softgpu::twin
