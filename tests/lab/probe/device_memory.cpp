// SPDX-License-Identifier: Apache-2.0
// The kernel offers a provider's memory in the file p2pmem/allocate: mapped shared from offset 0, each mapping gets
// pages of its own.
#include "lab/probe/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>

namespace sluice::lab {

namespace {

std::byte* map(int fd, std::size_t length, int flags, const std::string& what) {
  void* address = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (address == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "cannot map " + what);
  return static_cast<std::byte*>(address);
}

std::byte* allocate(const std::string& provider, std::size_t length) {
  const std::string name = provider + "/allocate";
  const int fd = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + name);
  std::byte* address = map(fd, length, MAP_SHARED, name);
  close(fd);
  return address;
}

// A bijection, so two seeds never agree at the same place.
std::uint64_t word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t value = (seed << 40U) ^ index;
  value *= 0x9e3779b97f4a7c15U;
  return value ^ (value >> 32U);
}

}  // namespace

DeviceMemory::DeviceMemory(const std::string& provider, std::size_t length)
    : data_(allocate(provider, length)), length_(length) {}

DeviceMemory::~DeviceMemory() {
  munmap(data_, length_);
}

HostMemory::HostMemory(std::size_t length)
    : data_(static_cast<std::byte*>(std::aligned_alloc(4096, (length + 4095) / 4096 * 4096))) {
  if (data_ == nullptr) throw std::bad_alloc();
}

HostMemory::~HostMemory() {
  std::free(data_);
}

void fill(std::span<std::byte> memory, std::uint64_t seed) {
  for (std::size_t done = 0; done < memory.size(); done += sizeof(std::uint64_t)) {
    const std::uint64_t value = word(seed, done);
    std::memcpy(memory.data() + done, &value, std::min(sizeof value, memory.size() - done));
  }
}

bool holds(std::span<const std::byte> memory, std::uint64_t seed) {
  for (std::size_t done = 0; done < memory.size(); done += sizeof(std::uint64_t)) {
    const std::uint64_t value = word(seed, done);
    if (std::memcmp(memory.data() + done, &value, std::min(sizeof value, memory.size() - done)) != 0) return false;
  }
  return true;
}

bool all_equal(std::span<const std::byte> memory, std::byte value) {
  return std::all_of(memory.begin(), memory.end(), [=](std::byte byte) { return byte == value; });
}

}  // namespace sluice::lab
