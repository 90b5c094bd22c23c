// SPDX-License-Identifier: Apache-2.0
// Windows end at multiples of their size, so that all but a buffer's first begin with a page of the device.
#include "nvfs/windows.h"

#include <algorithm>

namespace sluice::nvfs {

Windows::Windows(Mappings& mappings, std::uint64_t begin, std::uint64_t length, std::uint64_t gpu_on_bus)
    : mappings_(mappings),
      begin_((begin + block_bytes - 1) / block_bytes * block_bytes),
      end_((begin + length) / block_bytes * block_bytes),
      gpu_on_bus_(gpu_on_bus) {
  if (end_ <= begin_) {
    end_ = begin_;
    return;
  }
  const std::uint64_t first = begin_ / window_bytes;
  count_ = static_cast<std::size_t>((end_ - 1) / window_bytes - first + 1);
  windows_ = std::make_unique<Window[]>(count_);  // NOLINT(modernize-avoid-c-arrays)
  for (std::size_t i = 0; i < count_; ++i) {
    const std::uint64_t from = std::max(begin_, (first + i) * window_bytes);
    const std::uint64_t to = std::min(end_, (first + i + 1) * window_bytes);
    windows_[i].cover(from, to - from);
  }
}

Windows::~Windows() {
  for (std::size_t i = 0; i < count_; ++i) {
    if (windows_[i].is_mapped()) mappings_.forget(windows_[i]);
  }
}

Window& Windows::at(std::uint64_t address) noexcept {
  return windows_[address / window_bytes - begin_ / window_bytes];
}

int Windows::require(const Node& node, Window& window) noexcept {
  window.used.store(next_use(), std::memory_order_relaxed);
  return window.is_mapped() ? 0 : mappings_.map(node, window, gpu_on_bus_);
}

}  // namespace sluice::nvfs
