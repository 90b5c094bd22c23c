// SPDX-License-Identifier: Apache-2.0
// A word of pinned memory, which the host and the device share.
#pragma once

#include <atomic>

#include "fixture.h"

namespace sluice::gpu_suite {

template <typename Word>
class Shared {
 public:
  explicit Shared(Word value) : buffer_(64) { store(value); }
  Ptr at() const { return buffer_.at(); }
  Word load() const { return std::atomic_ref(word()).load(std::memory_order_acquire); }
  void store(Word value) const { std::atomic_ref(word()).store(value, std::memory_order_release); }

 private:
  Word& word() const { return *reinterpret_cast<Word*>(buffer_.data()); }
  PinnedBuffer buffer_;
};

}  // namespace sluice::gpu_suite
