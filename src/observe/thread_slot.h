// SPDX-License-Identifier: Apache-2.0
// A small number that no other living thread has: counters that lie there are added to by one thread, without a locked
// instruction. When a thread ends the counters stay as they are, and the next thread with its number goes on adding.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::observe {

// Low ones first. Threads beyond that have none.
inline constexpr std::uint32_t thread_slots = 64;

// What a thread asks for once a transfer.
struct ThreadSlot {
  std::uint32_t number = 0;          // base::thread_number(); 0: not asked for yet
  std::uint32_t own = thread_slots;  // its slot; thread_slots: none
};

// The block of counters that a thread adds to. Of `count` blocks the first `alone` have one thread each, by slot; all
// others share the rest.
struct Block {
  std::size_t number;
  bool is_alone;
};
constexpr Block block_of(ThreadSlot thread, std::size_t alone, std::size_t count) noexcept {
  if (thread.own < alone) return {thread.own, true};
  return {alone + thread.number % (count - alone), false};
}

inline constinit thread_local ThreadSlot own_thread_slot;

// With its first count. A thread has its slot until it ends.
const ThreadSlot& take_thread_slot() noexcept;

inline ThreadSlot thread_slot() noexcept {
  const ThreadSlot& mine = own_thread_slot;
  return mine.number != 0 ? mine : take_thread_slot();
}

// Of the threads that had slots the child has one.
void thread_slots_after_fork_in_child() noexcept;

}  // namespace sluice::observe
