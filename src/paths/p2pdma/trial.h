// SPDX-License-Identifier: Apache-2.0
// The trial of the path `p2pdma`.
#pragma once

#include "paths/p2pdma/direct_pair.h"
#include "paths/path.h"

namespace sluice::paths {

// Of this path, with memory of the pair's provider: see paths/trial.h.
void make_trial(const Ends& ends, DirectPair& pair) noexcept;

}  // namespace sluice::paths
