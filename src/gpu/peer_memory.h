// SPDX-License-Identifier: Apache-2.0
// Device memory that other devices read. It is mapped by itself, so that the peer settings of the program's contexts
// are left alone: only devices that are let in reach it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda_api.h"

namespace sluice::gpu {

class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // On the device of this ordinal. success, or why not; then nothing is to be undone.
  cuda::Result make(int owner, std::size_t bytes) noexcept;
  // From now on device `reader` reads it. A device that was let in before is not asked for again.
  cuda::Result let_in(int reader) noexcept;

  bool is_there() const noexcept { return size_ != 0; }
  cuda::DevicePtr address() const noexcept { return address_; }
  std::size_t size() const noexcept { return size_; }
  // When no device works with it any more.
  void free() noexcept;
  // The process has lost it: a child of fork.
  void forget() noexcept;

 private:
  cuda::DevicePtr address_ = 0;
  std::size_t size_ = 0;
  std::uint64_t readers_ = 0;  // by ordinal
};

// A context current on this thread while it lives.
class ContextScope {
 public:
  explicit ContextScope(cuda::Context context) noexcept;
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  cuda::Result status() const noexcept { return status_; }

 private:
  const CudaApi* driver_;
  cuda::Result status_;
};

}  // namespace sluice::gpu
