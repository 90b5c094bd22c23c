// The path that everybody gets: pread and pwrite, and for device memory a slab in between.
#pragma once

#include <cstdint>

#include "paths/mover.h"
#include "paths/path.h"

namespace sluice::paths {

// Reads of up to 16 KiB, of what the page cache may have, into device memory.
enum class SmallReads : std::uint8_t {
  copied,    // a copy each; those of many threads at once together, by a kernel
  resident,  // sluice.small_reads: by a kernel that stays for the next one
};

Path& posix(Manner manner, SmallReads small_reads) noexcept;

}  // namespace sluice::paths
