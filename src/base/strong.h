// SPDX-License-Identifier: Apache-2.0
// An offset in a file, for which no other number is taken, and the two directions of a transfer.
#pragma once

#include <cstdint>

namespace sluice::base {

struct FileOffset {
  std::uint64_t value = 0;
};

enum class Direction : std::uint8_t { read, write };

}  // namespace sluice::base
