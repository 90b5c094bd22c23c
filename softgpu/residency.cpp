// SPDX-License-Identifier: Apache-2.0
// Waiting for a multiprocessor.
#include "residency.h"

#include <algorithm>

namespace sluice::softgpu {

bool Residency::enter(const Health& health) {
  if (most_ == 0) return !health.broken();
  const char self = 0;  // its address is this launch's name in the line
  std::unique_lock lock(mutex_);
  line_.push_back(&self);
  changed_.wait(lock, [&] { return health.broken() || (line_.front() == &self && resident_ < most_); });
  std::erase(line_, &self);
  const bool runs = !health.broken();
  if (runs) ++resident_;
  changed_.notify_all();  // the next in line may have a place, too
  return runs;
}

void Residency::leave() noexcept {
  if (most_ == 0) return;
  const std::lock_guard lock(mutex_);
  --resident_;
  changed_.notify_all();
}

void Residency::look_again() noexcept {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace sluice::softgpu
