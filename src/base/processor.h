// SPDX-License-Identifier: Apache-2.0
// What differs from processor to processor: x86-64 and 64-bit Arm. No other file of the library asks which one it is
// built for, but for the static probes' notes (observe/usdt.h), which are the same for both.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sluice::base {

// Words so far apart are never taken away from each other's writers. On Arm the larger line of those that are built:
// servers have 64 bytes and fetch the neighbour along, others have 128.
#if defined(__aarch64__)
inline constexpr std::size_t line_bytes = 128;
#else
inline constexpr std::size_t line_bytes = 64;
#endif

// Leaves the core's resources to its sibling for a moment.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `yield` is a hint that the cores of servers do nothing for; this empties the pipeline, and takes about as long as
  // x86's pause.
  asm volatile("isb" ::: "memory");
#endif
}

// The line of memory that holds this address, fetched for this processor alone, until another asks for it. Any address
// will do: where there is no memory, nothing happens.
inline void fetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  // What the compiler's own makes without -mprfchw is for reading alone.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

// Adds to a word that others only read: this thread alone writes it, so that nothing has to be locked. On x86-64 one
// instruction: a signal handler that adds to the same word comes before it or behind it.
inline void add_alone(std::uint64_t& word, std::uint64_t amount) noexcept {
#if defined(__x86_64__)
  asm("addq %1, %0" : "+m"(word) : "er"(amount) : "cc");
#else
  const std::atomic_ref<std::uint64_t> shared(word);
  shared.store(shared.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
#endif
}

// A full fence between words that a device reads and writes, too: what this thread has stored before is seen by the
// device before anything is loaded that comes behind. The language's fence orders for other processors alone: on Arm it
// is a barrier for the inner shareable domain, and a device may be in the outer one.
inline void fence_with_device() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__aarch64__)
  asm volatile("dmb osh" ::: "memory");
#endif
}

// What this thread has stored through mappings of device memory is on its way there, before anything that it does next.
// Such memory is write-combining: a processor keeps stores back until its buffers are full or it is told to empty them.
inline void send_stores() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#elif defined(__aarch64__)
  asm volatile("dsb st" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace sluice::base
