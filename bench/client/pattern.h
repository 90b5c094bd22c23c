// SPDX-License-Identifier: Apache-2.0
// Bytes that differ from place to place, so that a piece at the wrong offset, a stale one or a missing one is noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::bench {

// The bytes at `offset` and on, of the endless pattern that belongs to `salt`.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t offset, std::uint64_t salt = 0);

// The first byte that differs from the pattern, as an index into `bytes`; bytes.size() when none does.
std::size_t first_difference(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t salt = 0);

}  // namespace sluice::bench
