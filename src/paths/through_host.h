// SPDX-License-Identifier: Apache-2.0
// The way of paths whose file is read and written by calls with host memory, one after the other.
#pragma once

#include "base/outcome.h"
#include "paths/path.h"

namespace sluice::paths {

// Host memory in place; device memory through a bounce buffer, or by what keeps its order. As Item::outcome tells.
base::Outcome move_through_host(const Ends& ends, const Piece& piece, FileSide& side) noexcept;

}  // namespace sluice::paths
