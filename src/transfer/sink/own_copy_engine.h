// SPDX-License-Identifier: Apache-2.0
// What stands in for kernels of a call that several links carry (sink/link_kernels.h); of a stream,
// sink/stream_engine.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/processor.h"
#include "gpu/memory.h"
#include "staging/staging_buffer.h"
#include "transfer/sink/kernels.h"

namespace sluice::transfer {

// The target's copy engine, on the stream of its staging buffer.
class OwnCopyEngine {
 public:
  static constexpr std::uint32_t by_hand = 0;

  explicit OwnCopyEngine(staging::StagingLease& lease) noexcept : lease_(lease) {
    std::atomic_ref(lease.words().copied).store(0, std::memory_order_relaxed);
  }
  cuda::Result copy(std::span<const gpu::Copy> copies, std::uint32_t mark) noexcept {
    const cuda::Result result = lease_.device().copy_to_device(copies);
    return result == cuda::success ? lease_.device().mark(&lease_.words().copied, mark) : result;
  }
  std::uint32_t copied() const noexcept { return base::load_acquire(lease_.words().copied); }
  bool has_copied(std::uint32_t mark) const noexcept { return lease_.has_copied(mark); }
  cuda::Result health() const noexcept { return lease_.device().health(); }
  void give_up() noexcept { lease_.give_up(); }
  static void count(const OneRange& range, bool any) noexcept {
    if (any) {
      GatherKernel::count_copies(range, false);
    } else {
      GatherKernel::count(range);
    }
  }

 private:
  staging::StagingLease& lease_;
};

}  // namespace sluice::transfer
