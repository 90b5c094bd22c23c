// SPDX-License-Identifier: Apache-2.0
// What a virtual machine did not get of its own processors.
#pragma once

namespace sluice::bench {

// Seconds, of all processors together, that threads wanted to run here while the host ran others. In steps of 10 ms; 0
// where it is not told.
double stolen_seconds() noexcept;

}  // namespace sluice::bench
