// The path that everybody gets: pread and pwrite, and for device memory a slab in between.
#pragma once

#include "paths/path.h"

namespace sluice::paths {

enum class Manner : std::uint8_t {
  usual,
  plain,  // SLUICE_MODE=plain: pageable slabs and the driver's plainest copies
};

Path& posix(Manner manner) noexcept;

}  // namespace sluice::paths
