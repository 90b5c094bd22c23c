// SPDX-License-Identifier: Apache-2.0
// One call for memory in several parts, between a descriptor and host memory.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"

namespace sluice::io {

// That one call takes.
inline constexpr std::size_t most_in_a_vector = 256;

// Answers how many bytes the system has moved with one call, be it none: what is missing is to be asked for part by
// part (file_io.h), which also tells whether the file ends there. An error only where asking again would not tell it.
base::Outcome read_vector(int fd, std::span<const iovec> parts, base::FileOffset at) noexcept;
base::Outcome write_vector(int fd, std::span<const iovec> parts, base::FileOffset at) noexcept;

}  // namespace sluice::io
