// SPDX-License-Identifier: Apache-2.0
// Where a file has holes the module leaves device memory as it was: what is to be there comes from here.
#pragma once

#include "nvfs/group.h"
#include "paths/path.h"

namespace sluice::paths {

// Of a request's range that begins at `at` in the file and at `address` in memory.
class HolesOf final : public nvfs::Holes {
 public:
  HolesOf() noexcept = default;
  HolesOf(const Ends& ends, std::uint64_t at, std::uint64_t address) noexcept
      : ends_(&ends), at_(at), address_(address) {}

  nvfs::Filled fill(std::uint64_t begin, std::uint64_t length) noexcept override;

 private:
  const Ends* ends_ = nullptr;
  std::uint64_t at_ = 0;
  std::uint64_t address_ = 0;
};

// Zeros into device memory; false where the driver refuses.
bool clear_device_memory(const facts::BufferFacts& memory, std::uint64_t address, std::uint64_t length) noexcept;

}  // namespace sluice::paths
