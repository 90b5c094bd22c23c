// The path that everybody gets: pread and pwrite, and for device memory a slab in between.
#pragma once

#include "paths/mover.h"
#include "paths/path.h"

namespace sluice::paths {

Path& posix(Manner manner) noexcept;

}  // namespace sluice::paths
