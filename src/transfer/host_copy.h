// SPDX-License-Identifier: Apache-2.0
// Copying to and from memory of the caller that may not be there: a bad address is an answer, not a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/outcome.h"

namespace sluice::transfer {

// Both answer the bytes copied (all of them), or EFAULT.
base::Outcome copy_to_caller(std::uint64_t address, std::span<const std::byte> from) noexcept;
base::Outcome copy_from_caller(std::span<std::byte> to, std::uint64_t address) noexcept;

}  // namespace sluice::transfer
