// SPDX-License-Identifier: Apache-2.0
// The windows onto one registered buffer. Each is mapped by the first transfer that needs it; all are given up with the
// registration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "nvfs/mappings.h"
#include "nvfs/window.h"

namespace sluice::nvfs {

class Windows {
 public:
  // Of [begin, begin + length), as the module knows it, the whole blocks. Throws std::bad_alloc.
  Windows(Mappings& mappings, std::uint64_t begin, std::uint64_t length, std::uint64_t gpu_on_bus);
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  // Whether all of this lies in them.
  bool hold(std::uint64_t address, std::uint64_t length) const noexcept {
    return address >= begin_ && address <= end_ && length <= end_ - address;
  }
  // The one that holds this address, which they hold.
  Window& at(std::uint64_t address) noexcept;

  // With the window's lock held: there afterwards, or an errno.
  int require(const Node& node, Window& window) noexcept;
  // The same, where the module has let go of it.
  void give_up(Window& window) noexcept { mappings_.unmap(window); }

 private:
  Mappings& mappings_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t gpu_on_bus_ = 0;
  std::size_t count_ = 0;
  std::unique_ptr<Window[]> windows_;  // NOLINT(modernize-avoid-c-arrays): they never move
};

}  // namespace sluice::nvfs
