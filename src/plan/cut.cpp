// SPDX-License-Identifier: Apache-2.0
#include "plan/cut.h"

#include <algorithm>
#include <unordered_map>

namespace sluice::plan {

namespace {

constexpr std::uint64_t page = 4096;

// From there to where the next piece of the range begins.
std::uint64_t piece_at(std::uint64_t at, std::uint64_t left, std::uint64_t most) noexcept {
  const std::uint64_t size = most - at % page;
  return std::min(size, left);
}

constexpr std::uint64_t pages_of(std::uint64_t bytes) noexcept {
  return (bytes + page - 1) / page * page;
}

bool follows(const Range& one, const Range& next) noexcept {
  return one.handle == next.handle && one.at + one.size == next.at && one.address + one.size == next.address;
}

}  // namespace

// A page more each, as the first one ends on a page of the file.
std::uint64_t lent_part_bytes(std::uint64_t range_bytes) noexcept {
  const std::uint64_t parts = std::max<std::uint64_t>(1, (range_bytes + most_in_a_lent_part - 1) / most_in_a_lent_part);
  return pages_of((range_bytes + parts - 1) / parts) + page;
}

std::vector<std::uint32_t> order_of(std::span<const Range> ranges) {
  std::unordered_map<const void*, std::uint32_t> turn_of;  // of files
  std::vector<std::uint32_t> turns(ranges.size());
  std::vector<std::uint32_t> order;
  order.reserve(ranges.size());
  for (std::uint32_t i = 0; i < ranges.size(); ++i) {
    const auto turn = static_cast<std::uint32_t>(turn_of.size());
    turns[i] = turn_of.try_emplace(ranges[i].handle, turn).first->second;
    if (ranges[i].size > 0) order.push_back(i);
  }
  // Ranges that begin at the same place keep the program's order.
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t one, std::uint32_t other) {
    return turns[one] != turns[other] ? turns[one] < turns[other] : ranges[one].at < ranges[other].at;
  });
  return order;
}

std::vector<Cut> cut(std::span<const Range> ranges, std::span<const std::uint32_t> order, Places& places) {
  std::vector<Cut> cuts;
  cuts.reserve(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const Range& range = ranges[order[i]];
    const Range* const before = i > 0 ? &ranges[order[i - 1]] : nullptr;
    const bool joins = before != nullptr && before->size <= part_bytes && follows(*before, range) &&
                       cuts.back().size + range.size <= part_bytes && places.are_one(*before, range);
    if (joins) {
      ++cuts.back().count;
      cuts.back().size += range.size;
      continue;
    }
    if (range.size <= part_bytes) {
      cuts.push_back({i, 1, 0, range.size});
      continue;
    }
    const std::uint64_t most = places.piece_bytes(range);
    for (std::uint64_t begin = 0; begin < range.size; begin += cuts.back().size) {
      cuts.push_back({i, 1, begin, piece_at(range.at + begin, range.size - begin, most)});
    }
  }
  return cuts;
}

}  // namespace sluice::plan
