// SPDX-License-Identifier: Apache-2.0
// Bytes that tell at which place of which content they belong, so that no copy of them is needed to compare.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace sluice::lab {

// What a file holds at a place, eight bytes at a time.
inline std::uint64_t word_at(std::uint64_t place, std::uint64_t seed) {
  std::uint64_t x = place + seed * 0x9e3779b97f4a7c15U;
  x = (x ^ x >> 30U) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27U) * 0x94d049bb133111ebU;
  return x ^ x >> 31U;
}

// `offset` is a multiple of eight.
inline void fill(std::span<std::uint8_t> memory, std::uint64_t offset, std::uint64_t seed) {
  for (std::size_t i = 0; i < memory.size(); i += 8) {
    const std::uint64_t word = word_at(offset + i, seed);
    std::memcpy(memory.data() + i, &word, std::min<std::size_t>(8, memory.size() - i));
  }
}

// The first place where memory does not hold what fill() would have put there; "" where all of it does.
inline std::string differs_from(std::span<const std::uint8_t> memory, std::uint64_t offset, std::uint64_t seed) {
  for (std::size_t i = 0; i < memory.size(); i += 8) {
    const std::uint64_t word = word_at(offset + i, seed);
    if (std::memcmp(memory.data() + i, &word, std::min<std::size_t>(8, memory.size() - i)) != 0) {
      return "wrong bytes at " + std::to_string(offset + i);
    }
  }
  return "";
}

}  // namespace sluice::lab
