// SPDX-License-Identifier: Apache-2.0
// Device memory where the CPU can store into it: a mapping of the GPU's BAR, which GDRCopy's driver gdrdrv makes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/gdr_abi.h"

namespace sluice::gpu {

// A piece of device memory that is mapped for the CPU, for as long as this lives. Empty when it could not be. When the
// memory is freed, gdrdrv takes the mapping back: a store of this process then ends it by a signal, one of the kernel's
// on its behalf ends as EFAULT. So only the kernel stores there.
class BarMapping {
 public:
  BarMapping() noexcept = default;
  BarMapping(BarMapping&& other) noexcept;
  BarMapping& operator=(BarMapping&& other) noexcept;
  BarMapping(const BarMapping&) = delete;
  BarMapping& operator=(const BarMapping&) = delete;
  ~BarMapping();  // NOLINT(performance-trivially-destructible): that of a build without mappings

  // Control plane; any thread. Where it answers an empty one, the log tells why.
  static BarMapping onto(std::uint64_t address, std::uint64_t size) noexcept;

  explicit operator bool() const noexcept { return place_ != nullptr; }

  // Where the CPU reaches so many bytes from a device address on; null when the mapping does not show all of them.
  std::byte* at(std::uint64_t address, std::uint64_t length) const noexcept;

 private:
  std::byte* place_ = nullptr;  // of the mapping, whose first byte is that of the device address `start_`
  std::uint64_t start_ = 0;
  std::uint64_t begin_ = 0;  // the device addresses that the mapping was asked for
  std::uint64_t end_ = 0;
  gdr::Handle pinned_{};
};

}  // namespace sluice::gpu
