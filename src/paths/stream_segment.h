// SPDX-License-Identifier: Apache-2.0
// Pieces of a file to and from device memory by a stream's copier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"
#include "facts/buffer.h"
#include "paths/file_side.h"
#include "paths/path.h"
#include "stream/channel/stream_copier.h"

namespace sluice::paths {

// As DeviceSide::move() answers. The bytes of a read are in place for what comes later in the stream.
base::Outcome move_in_stream(stream::StreamCopier& copier, const facts::BufferFacts& memory, const Piece& piece,
                             FileSide& file) noexcept;

// What device memory holds when all that went before is in place.
base::Outcome read_back(stream::StreamCopier& copier, std::uint64_t address, std::span<std::byte> into) noexcept;

}  // namespace sluice::paths
