// SPDX-License-Identifier: Apache-2.0
// Reading a large range of a file into device memory in a stream's turn, by the links of several GPUs.
#pragma once

#include <optional>

#include "base/outcome.h"
#include "facts/buffer.h"
#include "stream/channel/stream_copier.h"
#include "transfer/file_range.h"

namespace sluice::transfer {

// By kernels alone, and what the page cache has. The bytes are in place for what comes later in the stream. Nothing
// where no neighbour lends its link: then no byte has been read. While the stream waits, no call of the driver's is
// made that may wait for the stream.
std::optional<base::Outcome> read_in_stream_by_links(const FileRange& range, stream::StreamCopier& copier,
                                                     const facts::BufferFacts& memory, cuda::DevicePtr to,
                                                     const staging::LendingRules& lending) noexcept;

}  // namespace sluice::transfer
