// SPDX-License-Identifier: Apache-2.0
// A number a thread, small and dense, to spread counters over cache lines: threads that count the same thing at the
// same time rarely touch the same line.
#pragma once

#include <atomic>
#include <cstddef>

namespace sluice::base {

inline constinit std::atomic<std::size_t> last_thread_number{0};
inline constinit thread_local std::size_t own_thread_number = 0;  // of all threads from 1 on; 0: none yet

[[gnu::noinline, gnu::cold]] inline std::size_t new_thread_number() noexcept {
  return own_thread_number = last_thread_number.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Asked several times a transfer: without a guard, a thread's word is looked up once each time.
inline std::size_t thread_number() noexcept {
  const std::size_t mine = own_thread_number;
  return mine != 0 ? mine : new_thread_number();
}

}  // namespace sluice::base
