// SPDX-License-Identifier: Apache-2.0
// A place for one job. Its word is all that threads agree by, so that joining is one compare-and-swap:
//   bits 0..7   threads that are at it
//   bits 8..15  helpers still wanted
//   bits 16..   how often this slot was used: an old observation cannot join a new job
// A thread that has counted itself in keeps the job from ending.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/processor.h"
#include "base/spin_backoff.h"
#include "workers/work_queue.h"

namespace sluice::workers {

struct alignas(base::line_bytes) JobSlot {
  static constexpr std::uint64_t one_at_it = 1;
  static constexpr std::uint64_t one_helper = 1U << 8U;
  static constexpr std::uint64_t one_use = 1U << 16U;
  static std::uint64_t at_it(std::uint64_t word) noexcept { return word & 0xffU; }
  static std::uint64_t helpers(std::uint64_t word) noexcept { return word >> 8U & 0xffU; }

  std::atomic<std::uint64_t> word{0};
  std::atomic<Job*> job{nullptr};
  std::atomic<std::uint32_t> request{0};  // that it belongs to, while requests are recorded
  std::atomic<bool> taken{false};

  bool take() noexcept {
    return !taken.load(std::memory_order_relaxed) && !taken.exchange(true, std::memory_order_acquire);
  }
  // Release: a thread that sees the helpers wanted sees the job, too. Sequentially consistent with a thread's going to
  // sleep: either it sees them, or it is counted among the sleeping afterwards.
  void ask(Job& asking, std::uint32_t of_request, unsigned wanted) noexcept {
    job.store(&asking, std::memory_order_relaxed);
    request.store(of_request, std::memory_order_relaxed);
    word.fetch_add(wanted * one_helper, std::memory_order_seq_cst);
  }
  bool wants_a_helper() const noexcept { return helpers(word.load(std::memory_order_seq_cst)) > 0; }
  // Returns when no thread is at it, and none comes any more.
  void end() noexcept {
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_weak(seen, seen - helpers(seen) * one_helper + one_use, std::memory_order_acquire)) {
    }
    base::SpinBackoff backoff;
    while (at_it(word.load(std::memory_order_acquire)) > 0) backoff.wait();
    taken.store(false, std::memory_order_release);
  }
  void forget() noexcept {
    word.store(0, std::memory_order_relaxed);
    taken.store(false, std::memory_order_relaxed);
  }
};

}  // namespace sluice::workers
