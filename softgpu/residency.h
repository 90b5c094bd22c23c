// SPDX-License-Identifier: Apache-2.0
// How many kernels a device runs at a time. A GPU whose multiprocessors are all taken starts no other kernel until one
// ends; SLUICE_SOFTGPU_SMS says so many launches fit.
#pragma once

#include <deque>
#include <mutex>

#include "channel.h"

namespace sluice::softgpu {

// First come, first served. Any thread may call.
class Residency {
 public:
  // 0: no limit.
  explicit Residency(unsigned most) : most_(most) {}

  // Waits for a place. False, and none is taken, when the context broke meanwhile.
  bool enter(const Health& health);
  void leave() noexcept;
  // The health of some context has changed.
  void look_again() noexcept;

 private:
  const unsigned most_;
  std::mutex mutex_;
  Condition changed_;
  std::deque<const void*> line_;  // the waiters, the first in front
  unsigned resident_ = 0;
};

}  // namespace sluice::softgpu
