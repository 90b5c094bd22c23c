// SPDX-License-Identifier: Apache-2.0
// A large read for a stream: many helpers fill the copier's places.
#pragma once

#include "paths/stream_segment.h"

namespace sluice::paths {

// Below it one thread is as quick.
inline constexpr std::uint64_t smallest_for_helpers = 128 << 10;

base::Outcome read_by_helpers(stream::StreamCopier& copier, const Piece& piece, FileSide& file) noexcept;

}  // namespace sluice::paths
