// SPDX-License-Identifier: Apache-2.0
// How a test program starts: it says what it runs on, then runs its tests.
#pragma once

namespace sluice::support {

// Prints the seed, the libcufile that was mapped, the driver and the places, and runs all tests; one that hangs is
// named, and ends the program. InitGoogleTest has been called before.
int run_all_tests();

}  // namespace sluice::support
