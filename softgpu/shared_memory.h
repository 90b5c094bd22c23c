// SPDX-License-Identifier: Apache-2.0
// Memory that processes share: a memory file of its own, of which cuMemExportToShareableHandle gives descriptors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backed_file.h"

namespace sluice::softgpu {

// One process's mapping of it. The memory lives as long as a process has it mapped or holds a descriptor.
class SharedMemory {
 public:
  // Made here, for a device.
  SharedMemory(int device, std::uint64_t size);
  // What a descriptor stands for, which stays the caller's. Throws Refusal (invalid value) where it is none of ours.
  explicit SharedMemory(int descriptor);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::byte* bytes() const { return bytes_; }
  std::uint64_t size() const { return size_; }
  int device() const { return device_; }
  // One more descriptor, which becomes the caller's.
  int share() const;

 private:
  Descriptor file_;
  std::uint64_t size_ = 0;
  int device_ = 0;
  std::byte* bytes_ = nullptr;
};

}  // namespace sluice::softgpu
