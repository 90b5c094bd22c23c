// SPDX-License-Identifier: Apache-2.0
#include "client/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice::bench {
namespace {

constexpr std::size_t word_size = sizeof(std::uint64_t);

std::uint64_t word_at(std::uint64_t index, std::uint64_t salt) {
  std::uint64_t mixed = (index + salt * 0xD1B54A32D192ED03ull) * 0x9E3779B97F4A7C15ull;
  mixed ^= mixed >> 32;
  return mixed * 0xD6E8FEB86659FD93ull;
}

}  // namespace

void fill_pattern(std::span<std::byte> bytes, std::uint64_t offset, std::uint64_t salt) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::uint64_t at = offset + done;
    const std::size_t within = at % word_size;
    if (within == 0 && bytes.size() - done >= word_size) {
      const std::size_t words = (bytes.size() - done) / word_size;
      const std::uint64_t first = at / word_size;
      for (std::size_t i = 0; i < words; ++i) {
        const std::uint64_t word = word_at(first + i, salt);
        std::memcpy(bytes.data() + done + i * word_size, &word, word_size);
      }
      done += words * word_size;
    } else {
      const std::uint64_t word = word_at(at / word_size, salt);
      const std::size_t part = std::min(word_size - within, bytes.size() - done);
      std::memcpy(bytes.data() + done, reinterpret_cast<const std::byte*>(&word) + within, part);
      done += part;
    }
  }
}

std::size_t first_difference(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t salt) {
  std::array<std::byte, 4096> expected{};
  for (std::size_t done = 0; done < bytes.size(); done += expected.size()) {
    const std::size_t part = std::min(expected.size(), bytes.size() - done);
    fill_pattern(std::span(expected).first(part), offset + done, salt);
    const std::byte* const found = bytes.data() + done;
    if (std::memcmp(found, expected.data(), part) == 0) continue;
    return done + static_cast<std::size_t>(std::mismatch(found, found + part, expected.data()).first - found);
  }
  return bytes.size();
}

}  // namespace sluice::bench
