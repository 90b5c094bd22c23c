// SPDX-License-Identifier: Apache-2.0
// Host memory that is pinned for all contexts, by one of them. Unpinning waits for all work of that context, and some
// of it may be waiting for the request that wanted it: so what a driver has pinned stays pinned, where it refused what
// comes next, and the next one in that context goes on with it.
#pragma once

#include <cstddef>
#include <span>

#include "gpu/cuda_api.h"

namespace sluice::gpu {

class Pin {
 public:
  // With the context current. success, or why not; what was done until then is kept for the next time.
  cuda::Result make(cuda::Context context, unsigned long long context_id, std::span<std::byte> memory) noexcept;

  bool is_there() const noexcept { return memory_.data() != nullptr; }
  bool is_of(cuda::Context context, unsigned long long context_id) const noexcept {
    return is_there() && context_ == context && context_id_ == context_id;
  }
  // Its context is gone, or was reset, as far as the driver tells.
  bool is_left() const noexcept;
  // 0: not yet.
  cuda::DevicePtr seen_by_device() const noexcept { return seen_; }
  // What a context that is gone has left, or an error. Does nothing where there is none.
  void drop() noexcept;

 private:
  std::span<std::byte> memory_;
  cuda::Context context_ = nullptr;
  unsigned long long context_id_ = 0;
  cuda::DevicePtr seen_ = 0;
};

// The context that has pinned it. Null: none, or it is gone.
cuda::Context pinned_by(const std::byte* memory) noexcept;

}  // namespace sluice::gpu
