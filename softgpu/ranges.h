// SPDX-License-Identifier: Apache-2.0
// Handing out ranges of a line: offsets of a device's memory, or addresses of its address space.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace sluice::softgpu {

// First fit, lowest first, so a freed range is soon used again, as with a real driver. Not thread-safe.
class Ranges {
 public:
  Ranges(std::uint64_t start, std::uint64_t size);

  // `alignment` is a power of two.
  std::optional<std::uint64_t> take(std::uint64_t size, std::uint64_t alignment);
  // Exactly this range, when it is free.
  bool take_at(std::uint64_t start, std::uint64_t size);
  void give_back(std::uint64_t start, std::uint64_t size);
  std::uint64_t available() const { return available_; }

 private:
  using Free = std::map<std::uint64_t, std::uint64_t>;  // start -> end
  void carve(Free::iterator hole, std::uint64_t start, std::uint64_t end);

  Free free_;
  std::uint64_t available_;
};

}  // namespace sluice::softgpu
