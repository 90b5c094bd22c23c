// SPDX-License-Identifier: Apache-2.0
// All windows of the process that are mapped: so many at a time. The one that was not used for longest makes room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "nvfs/window.h"

namespace sluice::nvfs {

// Shadows take a MiB of host memory each.
inline constexpr std::size_t most_windows = 256;

class Mappings {
 public:
  // With the window's lock held. 0, or the errno that says why it cannot be mapped: EAGAIN where all others are in use.
  int map(const Node& node, Window& window, std::uint64_t gpu_on_bus) noexcept;
  // The same way back.
  void unmap(Window& window) noexcept;
  // When nothing uses the window any more.
  void forget(Window& window) noexcept;

  // At most so many at a time.
  void set_limit(std::size_t limit) noexcept;
  std::size_t count() noexcept;

  // No child inherits the lock held.
  void before_fork() { mutex_.lock(); }
  void after_fork(bool in_child) {
    if (in_child) count_ = 0;
    mutex_.unlock();
  }

 private:
  // All three with mutex_ held.
  bool evict_one() noexcept;
  void drop(Window& window) noexcept;

  std::mutex mutex_;
  std::array<Window*, most_windows> mapped_{};
  std::size_t count_ = 0;
  std::size_t limit_ = most_windows;
};

// A use: the windows' clock goes on.
std::uint64_t next_use() noexcept;

}  // namespace sluice::nvfs
