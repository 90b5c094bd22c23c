// SPDX-License-Identifier: Apache-2.0
#include "client/offsets.h"

namespace sluice::bench {

Offsets::Offsets(std::uint64_t begin, std::uint64_t end, std::uint64_t size, Order order, std::uint64_t seed)
    : begin_(begin), room_(end - begin), size_(size), slots_(room_ / size), order_(order), state_(seed | 1) {
  slot_ = random() % slots_;
}

std::uint64_t Offsets::random() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_ >> 11;  // the low bits are the weaker ones
}

std::uint64_t Offsets::next() {
  slot_ = order_ == Order::random ? random() % slots_ : slot_ + 1 < slots_ ? slot_ + 1 : 0;
  return begin_ + slot_ * size_;
}

std::uint64_t Offsets::anywhere(std::uint64_t alignment) {
  return begin_ + random() % ((room_ - size_) / alignment + 1) * alignment;
}

}  // namespace sluice::bench
