// SPDX-License-Identifier: Apache-2.0
// A window's lock comes before the lock here; with the lock here held, other windows are only tried.
#include "nvfs/mappings.h"

#include <algorithm>
#include <cerrno>

namespace sluice::nvfs {

int Mappings::map(const Node& node, Window& window, std::uint64_t gpu_on_bus) noexcept {
  const std::lock_guard lock(mutex_);
  while (count_ >= limit_) {
    if (!evict_one()) return EAGAIN;
  }
  for (;;) {
    const int error = window.map(node, gpu_on_bus);
    // The device's window onto its memory, the BAR, may be full of ours.
    if (error == ENOMEM && evict_one()) continue;
    if (error == ENOMEM && count_ > 0) return EAGAIN;
    if (error == 0) mapped_[count_++] = &window;
    return error;
  }
}

bool Mappings::evict_one() noexcept {
  Window* oldest = nullptr;
  for (std::size_t i = 0; i < count_; ++i) {
    Window& candidate = *mapped_[i];
    if (oldest != nullptr &&
        oldest->used.load(std::memory_order_relaxed) <= candidate.used.load(std::memory_order_relaxed)) {
      continue;
    }
    if (!candidate.lock().try_lock()) continue;
    if (oldest != nullptr) oldest->lock().unlock();
    oldest = &candidate;
  }
  if (oldest == nullptr) return false;
  oldest->unmap();
  drop(*oldest);
  oldest->lock().unlock();
  return true;
}

void Mappings::drop(Window& window) noexcept {
  const auto end = mapped_.begin() + static_cast<std::ptrdiff_t>(count_);
  const auto place = std::find(mapped_.begin(), end, &window);
  if (place == end) return;
  *place = mapped_[--count_];
}

void Mappings::unmap(Window& window) noexcept {
  const std::lock_guard lock(mutex_);
  drop(window);
  window.unmap();
}

void Mappings::forget(Window& window) noexcept {
  unmap(window);
}

void Mappings::set_limit(std::size_t limit) noexcept {
  const std::lock_guard lock(mutex_);
  limit_ = std::clamp<std::size_t>(limit, 1, most_windows);
}

std::size_t Mappings::count() noexcept {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::uint64_t next_use() noexcept {
  static std::atomic<std::uint64_t> uses{0};
  return uses.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace sluice::nvfs
