// SPDX-License-Identifier: Apache-2.0
// Counts what code of the library itself asks of the C library: memory, and locks. All other calls (the
// driver's, the test's) pass uncounted.
#pragma once

#include <cstddef>
#include <string>

namespace sluice::contract {

struct Asked {
  std::size_t allocations = 0;
  std::size_t locks = 0;
  std::string first;  // the call that was counted first, and from where in the library
};

// From now on, on all threads.
void start_counting();
Asked stop_counting();

}  // namespace sluice::contract
