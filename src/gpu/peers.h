// SPDX-License-Identifier: Apache-2.0
// How devices reach each other's memory, as the driver tells it.
#pragma once

#include <string>
#include <vector>

namespace sluice::gpu {

struct PeerFacts {
  std::string one;  // addresses on the PCI bus, in small letters
  std::string other;
  bool access = false;  // in both directions
  bool nvlink = false;  // atomics work across, which PCIe has not between GPUs
};

// Each two devices. Empty where the driver is too old to be asked.
std::vector<PeerFacts> peer_facts();

// From device `one`, the memory of `other` can be reached.
bool can_reach(int one, int other) noexcept;

// The same, and by NVLink. The soft GPU's links count as such.
bool is_joined_by_nvlink(int one, int other) noexcept;

// The process works with this device: its primary context is there. Asking makes none.
bool is_in_use(int ordinal) noexcept;

}  // namespace sluice::gpu
