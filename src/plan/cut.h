// SPDX-License-Identifier: Apache-2.0
// In which order the ranges of a plan go, which of them as one transfer, and which in pieces. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/strong.h"

namespace sluice::plan {

struct Range {
  void* handle = nullptr;
  std::uint64_t at = 0;  // in the file
  std::uint64_t address = 0;
  std::uint64_t size = 0;
};

// A transfer: whole ranges that follow each other in file and memory, or a piece of one. Large enough for the link, and
// small enough that waiting for the last of several that go beside each other costs little.
inline constexpr std::uint64_t part_bytes = std::uint64_t{32} << 20U;
// The same where several links carry each transfer, one after the other: what begins and ends with it counts for more.
inline constexpr std::uint64_t most_in_a_lent_part = std::uint64_t{512} << 20U;
// Parts of a range that are alike: one that is short would be alone as well, and not worth several links.
std::uint64_t lent_part_bytes(std::uint64_t range_bytes) noexcept;
struct Cut {
  std::uint32_t first = 0;  // of its ranges, by their place in the order
  std::uint32_t count = 1;
  std::uint64_t begin = 0;  // in the range, of a piece
  std::uint64_t size = 0;
};

// The numbers of all ranges that have bytes: files in the order in which they are named first, each from its start.
std::vector<std::uint32_t> order_of(std::span<const Range> ranges);

// What the ranges themselves do not tell.
class Places {
 public:
  // Both lie in one piece of memory, as far as that decides what may go as one transfer.
  virtual bool are_one(const Range& one, const Range& next) = 0;
  // Of a range that is larger than a part: how large its pieces may be.
  virtual std::uint64_t piece_bytes(const Range& range) = 0;

 protected:
  ~Places() = default;
};
// Pieces of one range begin on pages of the file, but for the first.
std::vector<Cut> cut(std::span<const Range> ranges, std::span<const std::uint32_t> order, Places& places);

}  // namespace sluice::plan
