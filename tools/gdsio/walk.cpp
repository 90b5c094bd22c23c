// SPDX-License-Identifier: Apache-2.0
#include "gdsio/walk.h"

#include <algorithm>

namespace sluice::tools {

Walk::Walk(std::uint64_t begin, std::uint64_t size, SizeRange sizes, Order order, std::uint64_t alignment,
           std::uint64_t seed, End end)
    : begin_(begin),
      size_(size),
      sizes_(sizes),
      order_(order),
      alignment_(alignment),
      state_((seed + 1) * 0x9E3779B97F4A7C15u | 1),
      end_(end),
      now_(sizes.smallest) {
  for (int i = 0; i < 8; ++i) random();  // neighbouring seeds have parted by then
}

std::uint64_t Walk::random() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_ >> 11;  // the low bits are the weaker ones
}

std::optional<Extent> Walk::next() {
  if (size_ == 0) return std::nullopt;
  if (given_ == size_) {
    if (end_ == End::after_one_pass) return std::nullopt;
    given_ = 0;
  }
  const std::uint64_t part = std::min(now_, size_ - given_);
  now_ = now_ + sizes_.step > sizes_.largest ? sizes_.smallest : now_ + sizes_.step;
  std::uint64_t offset = begin_ + given_;
  if (order_ == Order::random) offset = begin_ + random() % ((size_ - part) / alignment_ + 1) * alignment_;
  given_ += part;
  return Extent{offset, part};
}

}  // namespace sluice::tools
