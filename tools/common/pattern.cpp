// SPDX-License-Identifier: Apache-2.0
#include "common/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice::tools {
namespace {

constexpr std::size_t word_size = sizeof(std::uint64_t);

std::uint64_t pattern_word(std::uint64_t index, std::uint64_t seed) {
  std::uint64_t word = (index ^ (seed << 40)) * 0x9E6C63D0876A9A63u + seed;
  word ^= word >> 31;
  return word * 0xC2B2AE3D27D4EB4Fu;
}

}  // namespace

void fill_with_pattern(std::span<std::byte> bytes, std::uint64_t offset, std::uint64_t seed) {
  while (!bytes.empty()) {
    const std::uint64_t word = pattern_word(offset / word_size, seed);
    const std::size_t skipped = offset % word_size;
    const std::size_t part = std::min(word_size - skipped, bytes.size());
    std::memcpy(bytes.data(), reinterpret_cast<const std::byte*>(&word) + skipped, part);
    bytes = bytes.subspan(part);
    offset += part;
  }
}

std::size_t first_wrong_byte(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t seed) {
  std::array<std::byte, 4096> right{};
  for (std::size_t at = 0; at < bytes.size(); at += right.size()) {
    const std::span<const std::byte> found = bytes.subspan(at, std::min(right.size(), bytes.size() - at));
    fill_with_pattern(std::span(right).first(found.size()), offset + at, seed);
    const auto [wrong, expected] = std::mismatch(found.begin(), found.end(), right.begin());
    if (wrong != found.end()) return at + static_cast<std::size_t>(wrong - found.begin());
  }
  return bytes.size();
}

void fill_with_noise(std::span<std::byte> bytes, std::uint64_t& state) {
  while (!bytes.empty()) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const std::size_t part = std::min(word_size, bytes.size());
    std::memcpy(bytes.data(), &state, part);
    bytes = bytes.subspan(part);
  }
}

}  // namespace sluice::tools
