// SPDX-License-Identifier: Apache-2.0
// What ails a file of the sick file system: written by the test, read by the server, in memory that both map.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::sick {

enum class Ailment : std::uint32_t {
  none,
  late,      // answers after some milliseconds
  brief,     // answers reads and writes with half of what was asked for, in whole pages
  silent,    // keeps requests to itself until it is well again
  refusing,  // EIO
  lying,     // says that it has written more than it was given, and sends more than it was asked for
  dying,     // the server ends with the next request
};

// As many files as there are names: "0", "1", ...
inline constexpr std::size_t file_count = 3;
inline constexpr std::size_t file_bytes = std::size_t{24} << 20U;

struct Condition {
  std::array<std::atomic<Ailment>, file_count> reading{};
  std::array<std::atomic<Ailment>, file_count> writing{};
  std::atomic<std::uint32_t> withheld{0};  // requests that have not been answered
  std::atomic<std::uint32_t> serves{0};    // 1: the server has begun
};

// Byte `at` of every file, as long as it is not written.
constexpr unsigned char byte_at(std::size_t at) noexcept {
  return static_cast<unsigned char>((at * 2654435761U) >> 13U);
}

}  // namespace sluice::sick
