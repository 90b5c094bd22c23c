// SPDX-License-Identifier: Apache-2.0
// Offsets that must not be swapped, and the two directions of a transfer.
#pragma once

#include <cstdint>

namespace sluice::base {

struct FileOffset {
  std::uint64_t value = 0;
};

struct BufferOffset {
  std::uint64_t value = 0;
};

enum class Direction : std::uint8_t { read, write };

}  // namespace sluice::base
