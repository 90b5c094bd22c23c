// SPDX-License-Identifier: Apache-2.0
// Reading a range of a file into device memory: many helpers fill a staging buffer, the device empties it meanwhile.
#pragma once

#include "base/outcome.h"
#include "staging/staging_buffer.h"
#include "transfer/file_range.h"

namespace sluice::transfer {

// Is this byte of a buffered descriptor's file in the page cache? Yes where the file system will not say.
bool is_cached_at(int fd, std::uint64_t position) noexcept;
// Is the range in the page cache, as far as its ends tell? None is of a descriptor with O_DIRECT.
bool seems_cached(const FileRange& range) noexcept;

// Bytes in place: all of them, or up to the end of the file or the first error. Memory behind the count is as it was.
base::Outcome read_to_device(const FileRange& range, staging::StagingLease& lease, const Target& target,
                             CopyEngine engine) noexcept;

}  // namespace sluice::transfer
