// SPDX-License-Identifier: Apache-2.0
// The trial before trust: one verified read from a file into device memory of our own.
#pragma once

#include "paths/path.h"

namespace sluice::paths {

// Reads some bytes of the file twice, into host memory and, by the drive, into device memory that held their opposite,
// and compares. Settles the file's pair, or postpones it where this file is nothing to try on. For the thread that has
// claimed the trial. `memory`: of the device, its context decides which one is used. Writes to no file.
void make_trial(const OpenFile& file, const facts::BufferFacts& memory) noexcept;

}  // namespace sluice::paths
