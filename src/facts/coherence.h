// SPDX-License-Identifier: Apache-2.0
// Whether a device and the CPU share memory by hardware, as a driver tells. A hint: what reaches what, a trial shows.
#pragma once

namespace sluice::facts {

// Attributes of a device.
struct CoherenceFacts {
  bool host_page_tables = false;    // it goes by the host's page tables, which takes a coherent link
  bool integrated = false;          // it has no memory of its own
  bool pageable = false;            // it reaches whatever memory the host has
  bool concurrent_managed = false;  // both may be at managed memory at the same time
};

// An integrated one without the rest (Jetson) has caches that nothing keeps in step.
constexpr bool is_said_coherent(const CoherenceFacts& facts) noexcept {
  return facts.pageable && (facts.host_page_tables || (facts.integrated && facts.concurrent_managed));
}

}  // namespace sluice::facts
