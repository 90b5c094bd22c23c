// SPDX-License-Identifier: Apache-2.0
// A number a thread, small and dense, to spread counters over cache lines: threads that count the same thing at the
// same time rarely touch the same line.
#pragma once

#include <atomic>
#include <cstddef>

namespace sluice::base {

inline std::size_t thread_number() noexcept {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace sluice::base
