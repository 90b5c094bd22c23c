// SPDX-License-Identifier: Apache-2.0
// A read for a stream that waits for a disk: one thread keeps many places of the copier on their way by io_uring.
#pragma once

#include <optional>

#include "paths/stream_segment.h"

namespace sluice::paths {

// Nothing where there is no io_uring, or it is not wanted.
std::optional<base::Outcome> read_by_disk_queue(stream::StreamCopier& copier, const Piece& piece,
                                                FileSide& file) noexcept;

}  // namespace sluice::paths
