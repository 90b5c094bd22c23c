// SPDX-License-Identifier: Apache-2.0
// The seed of the run and what is derived from it.
#include "support/random.h"

#include <sys/random.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace sluice::support {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;

std::uint64_t choose_seed() {
  if (const char* given = std::getenv("SLUICE_TEST_SEED")) {
    const std::string_view text(given);
    std::uint64_t seed = 0;
    std::from_chars(text.data(), text.data() + text.size(), seed);
    return seed;
  }
  std::uint32_t drawn = 1;
  if (getrandom(&drawn, sizeof drawn, 0) != static_cast<ssize_t>(sizeof drawn)) drawn = 1;
  return drawn;
}

}  // namespace

std::uint64_t run_seed() {
  static const std::uint64_t seed = choose_seed();
  return seed;
}

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix(hash);
}

std::uint64_t Random::next() {
  state_ += kStep;
  return mix(state_);
}

Bytes random_bytes(std::size_t length, std::uint64_t seed) {
  Bytes bytes(length);
  Random random(mix(run_seed() + kStep) ^ seed);
  std::size_t at = 0;
  while (at < length) {
    const std::uint64_t word = random.next();
    const std::size_t part = length - at < sizeof word ? length - at : sizeof word;
    std::memcpy(bytes.data() + at, &word, part);
    at += part;
  }
  return bytes;
}

}  // namespace sluice::support
