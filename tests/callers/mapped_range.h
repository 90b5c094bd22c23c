// SPDX-License-Identifier: Apache-2.0
// Device memory that lies one piece behind the other in one reserved range, each piece with a cuMemCreate handle of its
// own: made here, or come from another process as a descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/cuda_driver.h"
#include "support/random.h"
#include "support/scratch.h"

namespace sluice::callers {

class MappedRange {
 public:
  // Whether the driver has virtual memory management, and descriptors to share its memory.
  static bool available();
  static bool can_be_shared();

  // `piece` bytes each, a multiple of 2 MiB. Throws when the driver refuses.
  MappedRange(std::size_t pieces, std::size_t piece);
  // The same, which may be given to other processes.
  enum class Shared { yes };
  MappedRange(std::size_t pieces, std::size_t piece, int device, Shared shared);
  // What the descriptors of another process stand for; they may be closed afterwards.
  MappedRange(std::span<const support::Fd> descriptors, std::size_t piece, int device);
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  std::size_t size() const { return pieces_.size() * piece_; }
  void* address() const { return reinterpret_cast<void*>(address_); }
  void* at(std::size_t offset) const { return reinterpret_cast<void*>(address_ + offset); }
  // A descriptor for each piece.
  std::vector<support::Fd> share() const;

  void put(std::size_t offset, std::span<const unsigned char> bytes) const;
  support::Bytes get(std::size_t offset, std::size_t length) const;
  void fill(unsigned char value) const;

 private:
  void reserve(std::size_t pieces);
  void map(std::uint64_t handle);

  std::size_t piece_;
  int device_;
  std::size_t room_ = 0;
  support::CudaAddress address_ = 0;
  std::vector<std::uint64_t> pieces_;
};

}  // namespace sluice::callers
