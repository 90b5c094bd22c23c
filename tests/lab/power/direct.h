// SPDX-License-Identifier: Apache-2.0
// Writes that a drive makes from device memory by itself: whether the library goes that way, and how much has gone it.
#pragma once

#include <cstdint>

namespace sluice::lab {

// Whether they have to: LAB_DIRECT names a file on the writers' drive that has stored bytes, for the library's trial.
[[nodiscard]] bool is_direct();

// Throws, with the library's reason, unless large aligned writes from device memory into that file go by path p2pdma.
void must_be_direct();

// Bytes, by this process.
[[nodiscard]] std::uint64_t written_directly();

}  // namespace sluice::lab
