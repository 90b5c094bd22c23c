// SPDX-License-Identifier: Apache-2.0
// How an array deals the bytes of a disk out to its drives.
#pragma once

#include <cstdint>
#include <string>

#include "facts/root.h"

namespace sluice::facts {

struct Stripes {
  std::uint64_t chunk = 0;  // bytes on one drive before it is the next one's turn; 0: the disk is not striped
  unsigned drives = 1;
  bool mirrored = false;  // each byte lies on several of them
};

// Of an md array of a striped level. Any other disk is not striped, as far as sysfs tells.
Stripes stripes_of(const std::string& disk, const Root& root);

}  // namespace sluice::facts
