// SPDX-License-Identifier: Apache-2.0
// Bytes that tell where in a file they belong, so that a piece at the wrong place, a stale one or a missing one is
// seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::tools {

// The bytes at `offset` and on of the endless pattern that belongs to `seed`.
void fill_with_pattern(std::span<std::byte> bytes, std::uint64_t offset, std::uint64_t seed);

// The index in `bytes` of the first one that is not the pattern's; bytes.size() when all are.
std::size_t first_wrong_byte(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t seed);

// Bytes that no compressor makes smaller; `state` goes on from call to call.
void fill_with_noise(std::span<std::byte> bytes, std::uint64_t& state);

}  // namespace sluice::tools
