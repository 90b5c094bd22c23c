// SPDX-License-Identifier: Apache-2.0
// Device memory by cuMemCreate and cuMemMap: physical pieces that lie one behind the other in a reserved range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/cuda_driver.h"
#include "support/random.h"

namespace sluice::contract {

class MappedMemory {
 public:
  // False where there is no device, or its driver has no virtual memory management.
  static bool available();

  // `piece` bytes each, a multiple of 2 MiB. Throws when the driver refuses.
  MappedMemory(std::size_t pieces, std::size_t piece);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  // Maps one more piece behind the others, as a growing buffer does. There is room for as many as there were at first.
  void grow();

  std::size_t size() const { return pieces_.size() * piece_; }
  void* address() const { return reinterpret_cast<void*>(address_); }
  void* at(std::size_t offset) const { return reinterpret_cast<void*>(address_ + offset); }
  support::Bytes get(std::size_t offset, std::size_t length) const;

 private:
  const std::size_t piece_;
  const std::size_t room_;  // bytes that are reserved
  support::CudaAddress address_ = 0;
  std::vector<std::uint64_t> pieces_;
};

}  // namespace sluice::contract
