// SPDX-License-Identifier: Apache-2.0
// The trials of the path `nvfs`: of reads as for any direct path, of writes by a file of our own.
#pragma once

#include "paths/nvfs/kept.h"
#include "paths/path.h"

namespace sluice::paths {

// For the thread that has claimed the trial.
void make_read_trial(const Ends& ends, NvfsPair& pair) noexcept;

// Where reads are proven. Bytes of device memory go into a file without a name beside the caller's, on the same file
// system, that holds others, and are read back by the host. No other file is written to.
void make_write_trial(const Ends& ends, NvfsPair& pair) noexcept;

}  // namespace sluice::paths
