// SPDX-License-Identifier: Apache-2.0
// What a soak does round after round. Each throws where something is not as it has to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::soak {

struct Amounts {
  std::size_t handles = 10'000;
  std::size_t threads = 1'000;
  std::size_t children = 100;
  std::size_t registrations = 2'000;
  std::size_t steps = 300;  // of each actor of the model
};

struct Burden {
  const char* name;
  void (*bear)(const std::string& folder, std::uint64_t round, const Amounts& amounts);
};

// model      the model of tests/model: four threads on a file, all calls
// handles    as many at a time as asked for, of descriptors of their own; some of them read
// buffers    registrations of all sizes, several at a time
// threads    that live at the same time, and read
// children   of fork, which read into host memory, and end
std::span<const Burden> burdens();

}  // namespace sluice::soak
