// SPDX-License-Identifier: Apache-2.0
// Who adds to which of the statistics' shards, and how. The first shards have one thread each, by its slot, which adds
// without a locked instruction; all other threads share the rest. Readers add all of them up and see no difference.
//
// Setting them to zero is the one thing that others write there. A thread adds in turns, and says so in a flag of its
// own; who sets to zero forbids turns alone, has the kernel run a fence on all threads (membarrier), and waits for
// those that are in a turn. So neither a fence nor a locked instruction is needed in a turn.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/processor.h"
#include "observe/statistics_words.h"
#include "observe/thread_slot.h"

namespace sluice::observe {

inline constexpr std::size_t alone_shards = 6;     // of SLUICE_STATS_SHARD_COUNT
inline constexpr std::size_t alone_latencies = 3;  // of SLUICE_STATS_LATENCY_SHARD_COUNT

enum class Turns : std::uint8_t {
  shared,  // the kernel has no fence for us: all threads share all shards
  paused,  // the shards that threads have alone are left untouched: they are being set to zero
  alone,
};
inline constinit std::atomic<Turns> turns{Turns::shared};

struct alignas(base::line_bytes) TurnFlag {
  std::atomic<bool> busy{false};
};
inline constinit std::array<TurnFlag, alone_shards> turn_flags{};

// How a thread adds.
struct Alone {
  static void add(std::uint64_t& counter, std::uint64_t amount) noexcept { base::add_alone(counter, amount); }
};
struct Shared {
  static void add(std::uint64_t& counter, std::uint64_t amount) noexcept { observe::add(counter, amount); }
};

inline sluice_stats_shard& shared_shard(ThreadSlot thread) noexcept {
  constexpr std::size_t count = SLUICE_STATS_SHARD_COUNT;
  const bool has_all = turns.load(std::memory_order_relaxed) == Turns::shared;
  return statistics_region()
      .shards[has_all ? thread.number % count : alone_shards + thread.number % (count - alone_shards)];
}
inline sluice_stats_latencies& shared_latencies(std::size_t thread) noexcept {
  constexpr std::size_t count = SLUICE_STATS_LATENCY_SHARD_COUNT;
  const bool has_all = turns.load(std::memory_order_relaxed) == Turns::shared;
  return statistics_region().latencies[has_all ? thread % count : alone_latencies + thread % (count - alone_latencies)];
}

// Calls `add` once, with the shards to add to, each with Alone or Shared.
template <typename Add>
[[gnu::always_inline]] inline void in_turn(ThreadSlot thread, const Add& add) noexcept {
  if (thread.own < alone_shards) [[likely]] {
    std::atomic<bool>& busy = turn_flags[thread.own].busy;
    // Busy already: a signal handler has come into the turn of its own thread.
    if (!busy.load(std::memory_order_relaxed)) [[likely]] {
      busy.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      const bool alone = turns.load(std::memory_order_acquire) == Turns::alone;
      if (alone) [[likely]] {
        sluice_stats_region& region = statistics_region();
        sluice_stats_shard& shard = region.shards[thread.own];
        if (thread.own < alone_latencies) [[likely]] {
          add(Alone{}, shard, Alone{}, region.latencies[thread.own]);
        } else {
          add(Alone{}, shard, Shared{}, shared_latencies(thread.number));
        }
      }
      std::atomic_signal_fence(std::memory_order_seq_cst);
      busy.store(false, std::memory_order_release);
      if (alone) return;
    }
  }
  add(Shared{}, shared_shard(thread), Shared{}, shared_latencies(thread.number));
}

// For the control plane, under its lock, before anything counts.
void allow_turns_alone() noexcept;

// No thread is in a turn alone while this lives. For the control plane, under its lock.
class TurnsPaused {
 public:
  TurnsPaused() noexcept;
  ~TurnsPaused();
  TurnsPaused(const TurnsPaused&) = delete;
  TurnsPaused& operator=(const TurnsPaused&) = delete;

 private:
  bool go_on_alone_;
};

// Of a thread that ends.
void end_turn_of(std::uint32_t slot) noexcept;
// Threads that the child does not have are in no turn.
void turns_after_fork_in_child() noexcept;

}  // namespace sluice::observe
