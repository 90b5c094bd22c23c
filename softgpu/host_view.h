// SPDX-License-Identifier: Apache-2.0
// Device memory mapped a second time, for a program that asks for it as it asks gdrdrv for a GPU's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::softgpu {

// The host may read and write there until the memory is freed.
class HostView {
 public:
  // Takes over a mapping of so many bytes.
  HostView(std::byte* place, std::uint64_t size) : place_(place), size_(size) {}
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;
  ~HostView();

  std::byte* place() const { return place_; }

  // The memory is not the program's any more: from now on every access faults. The addresses stay taken.
  void take_back() const noexcept;

 private:
  std::byte* place_;
  std::uint64_t size_;
};

}  // namespace sluice::softgpu
