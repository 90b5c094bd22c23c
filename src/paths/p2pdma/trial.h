// SPDX-License-Identifier: Apache-2.0
// The trial before trust: one verified read from a file into device memory of our own.
#pragma once

#include "paths/p2pdma/direct_pair.h"
#include "paths/path.h"

namespace sluice::paths {

// Reads some bytes of the file twice, into host memory and, by the drive, into device memory that held their opposite,
// and compares. Settles the pair, or postpones it where this file is nothing to try on. For the thread that has
// claimed the trial. The memory is of the device, and its context decides which one is used. Writes to no file.
void make_trial(const Ends& ends, DirectPair& pair) noexcept;

}  // namespace sluice::paths
