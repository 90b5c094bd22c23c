// SPDX-License-Identifier: Apache-2.0
// What a process holds at a moment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::soak {

struct Sample {
  std::uint64_t memory = 0;       // bytes that are resident and the process's own
  std::uint64_t allocated = 0;    // bytes of the heaps that are in use
  std::uint64_t descriptors = 0;  // open
  std::uint64_t threads = 0;
  std::uint64_t pinned = 0;  // bytes that the library has pinned for staging
};

Sample sample_now();

}  // namespace sluice::soak
