// SPDX-License-Identifier: Apache-2.0
// How transfers that are carried at once hang together.
#pragma once

#include <cstdint>

namespace sluice::transfer {

// Each is a transfer of its own; or all are one transfer, in their order. Then what lies behind a part that did not
// come whole is not carried: no byte of it reaches the memory that is read into, nor, of a buffered file, the file that
// is written to. Parts behind it count 0 bytes, and are left where it is.
enum class Bond : std::uint8_t { none, one_transfer };

}  // namespace sluice::transfer
