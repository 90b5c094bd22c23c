// SPDX-License-Identifier: Apache-2.0
// Memory of a PCI device, as the kernel hands it to a process: the nearest thing to a GPU's memory on a machine
// without a GPU. A drive whose controller memory buffer is published stands for the GPU.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::lab {

// A mapping of `length` bytes of the provider's memory; `provider` is a device's p2pmem folder in sysfs. Given back at
// the end of the scope, once no transfer uses it. Throws std::system_error when the kernel refuses.
class DeviceMemory {
 public:
  DeviceMemory(const std::string& provider, std::size_t length);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return length_; }
  std::span<std::byte> bytes(std::size_t from, std::size_t length) const { return {data_ + from, length}; }

 private:
  std::byte* data_;
  std::size_t length_;
};

// Page-aligned ordinary memory.
class HostMemory {
 public:
  explicit HostMemory(std::size_t length);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* data() const { return data_; }
  std::span<std::byte> bytes(std::size_t from, std::size_t length) const { return {data_ + from, length}; }

 private:
  std::byte* data_;
};

// The bytes of a pattern follow from its seed and their place in it. Patterns of different seeds differ in every word.
void fill(std::span<std::byte> memory, std::uint64_t seed);

// Whether memory holds the pattern from its start on.
bool holds(std::span<const std::byte> memory, std::uint64_t seed);

bool all_equal(std::span<const std::byte> memory, std::byte value);

}  // namespace sluice::lab
