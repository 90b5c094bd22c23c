// SPDX-License-Identifier: Apache-2.0
// Files whose handle came with read and write operations of its own: those are called, with host memory.
#pragma once

#include "paths/bounce_copier.h"
#include "paths/path.h"

namespace sluice::paths {

Path& userspace(CopyMode copy_mode) noexcept;

// A plain read of a file's bytes into host memory, by what serves them: the caller's own operation where there is
// one, else the private description.
base::Outcome read_plainly(const OpenFile& file, std::span<std::byte> into, base::FileOffset at) noexcept;

}  // namespace sluice::paths
