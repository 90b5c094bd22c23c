// SPDX-License-Identifier: Apache-2.0
// Twins of the kernels that the tests launch.
#include <thread>

#include "kernels.h"
#include "twins.h"

namespace sluice::softgpu::twin {

void probe_store(const Launch& launch) {
  launch.word<std::uint32_t>(launch.parameter<std::uint64_t>(0)).store(launch.parameter<std::uint32_t>(1));
}

void probe_hold(const Launch& launch) {
  const auto address = launch.parameter<std::uint64_t>(0);
  const auto value = launch.parameter<std::uint32_t>(1);
  const auto flag = launch.word<std::uint32_t>(address);
  launch.word<std::uint32_t>(address + sizeof value).store(value);
  while (flag.load(std::memory_order_acquire) != value && !launch.ended()) std::this_thread::yield();
}

}  // namespace sluice::softgpu::twin
