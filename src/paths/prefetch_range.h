// SPDX-License-Identifier: Apache-2.0
// Which bytes of a file may be prefetched (io/prefetch.h).
#pragma once

#include <cstdint>

#include "facts/file.h"
#include "io/prefetch.h"

namespace sluice::paths {

// What a reader is likely to read next. With O_DIRECT bytes come from no cache.
inline io::PrefetchRange next_range_of_file(int fd, const facts::FileFacts& file) noexcept {
  return {file.direct ? -1 : fd, file.file_system == facts::FileSystem::memory};
}

// The place of a write, where that has been found to pay: reading must not have to wait for a writer, as on XFS, and a
// descriptor that waits for its disk with each call wants few of them.
inline io::PrefetchRange write_range_of_file(int fd, const facts::FileFacts& file) noexcept {
  const bool pays = file.file_system == facts::FileSystem::ext4 || file.file_system == facts::FileSystem::memory;
  return {pays && !file.direct && file.sync_flags == 0 ? fd : -1, file.file_system == facts::FileSystem::memory};
}

}  // namespace sluice::paths
