// SPDX-License-Identifier: Apache-2.0
// Sizes: as people write them, and rounded to what a backend can give.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/types.h"

namespace sluice::csi {

constexpr std::int64_t kibibyte = 1024;
constexpr std::int64_t mebibyte = 1024 * kibibyte;
constexpr std::int64_t gibibyte = 1024 * mebibyte;

// "5G", "100Gi", "4096" as Kubernetes writes quantities; nothing when it is not one, or does not fit.
std::optional<std::int64_t> parse_quantity(std::string_view text);

// What to allocate for a range: the required bytes (or `usual`) rounded up to `step`, at least `least`. A range that no
// such size fits is refused as OUT_OF_RANGE.
struct SizeRule {
  std::int64_t step = mebibyte;
  std::int64_t least = mebibyte;
  std::int64_t usual = gibibyte;
};
std::int64_t size_for(const Range& range, const SizeRule& rule);

// Whether an existing size answers a range.
bool fits(std::int64_t size, const Range& range);

}  // namespace sluice::csi
