// SPDX-License-Identifier: Apache-2.0
// Seeded randomness: every run prints its seed, SLUICE_TEST_SEED repeats a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::support {

using Bytes = std::vector<unsigned char>;

// The seed of this run: SLUICE_TEST_SEED, else one that the kernel drew. The same for the whole process.
std::uint64_t run_seed();

// One well-mixed value of any number (splitmix64's finisher), and of any text.
std::uint64_t mix(std::uint64_t value);
std::uint64_t hash_of(std::string_view text);

// A small generator; two with the same seed give the same values.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // A value in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

// `length` bytes that depend only on the seed and the run's seed.
Bytes random_bytes(std::size_t length, std::uint64_t seed);

}  // namespace sluice::support
