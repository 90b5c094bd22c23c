// SPDX-License-Identifier: Apache-2.0
// First fit over a map of holes.
#include "ranges.h"

#include <iterator>

namespace sluice::softgpu {

Ranges::Ranges(std::uint64_t start, std::uint64_t size) : available_(size) {
  free_.emplace(start, start + size);
}

void Ranges::carve(Free::iterator hole, std::uint64_t start, std::uint64_t end) {
  const auto [hole_start, hole_end] = *hole;
  // What is left behind the range is put in before the hole shrinks: when there is no memory for it, nothing changed.
  if (end < hole_end) free_.emplace(end, hole_end);
  if (start > hole_start) {
    hole->second = start;
  } else {
    free_.erase(hole);
  }
  available_ -= end - start;
}

std::optional<std::uint64_t> Ranges::take(std::uint64_t size, std::uint64_t alignment) {
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const std::uint64_t start = (hole->first + alignment - 1) & ~(alignment - 1);
    if (start < hole->second && hole->second - start >= size) {
      carve(hole, start, start + size);
      return start;
    }
  }
  return std::nullopt;
}

bool Ranges::take_at(std::uint64_t start, std::uint64_t size) {
  auto hole = free_.upper_bound(start);
  if (hole == free_.begin()) return false;
  --hole;
  if (start >= hole->second || hole->second - start < size) return false;
  carve(hole, start, start + size);
  return true;
}

void Ranges::give_back(std::uint64_t start, std::uint64_t size) {
  std::uint64_t end = start + size;
  auto next = free_.lower_bound(start);
  if (next != free_.end() && next->first == end) {
    end = next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->second == start) {
    std::prev(next)->second = end;
  } else {
    free_.emplace(start, end);
  }
  available_ += size;
}

}  // namespace sluice::softgpu
