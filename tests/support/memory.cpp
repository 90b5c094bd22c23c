// SPDX-License-Identifier: Apache-2.0
// Allocation and plain copies by kind. A copy into device memory may return before the bytes are in place, and the
// library works on streams of its own: every change of device memory therefore ends with a synchronisation.
#include "support/memory.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "support/cuda_driver.h"

namespace sluice::support {
namespace {

CudaAddress device_address(void* address) {
  return reinterpret_cast<CudaAddress>(address);
}

// Plain memory comes from mmap: page-aligned like device memory, and an overrun of the mapping faults.
void* map_plain(std::size_t size) {
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  return address;
}

void* allocate(MemoryKind kind, std::size_t size, int device) {
  if (kind == MemoryKind::plain) return map_plain(size);
  if (cuda() == nullptr) throw std::runtime_error("no CUDA driver: ask available() first");
  const ContextScope scope(primary_context(device));
  CudaAddress address = 0;
  void* host = nullptr;
  constexpr unsigned attach_global = 1;
  constexpr unsigned portable = 1;
  int result = 0;
  if (kind == MemoryKind::device) result = cuda()->allocate(&address, size);
  if (kind == MemoryKind::managed) result = cuda()->allocate_managed(&address, size, attach_global);
  if (kind == MemoryKind::pinned) result = cuda()->allocate_host(&host, size, portable);
  if (result != 0) {
    throw std::runtime_error(std::string("no ") + name_of(kind) + " memory: CUDA error " + std::to_string(result));
  }
  return host != nullptr ? host : reinterpret_cast<void*>(address);
}

}  // namespace

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::device:
      return "device";
    case MemoryKind::managed:
      return "managed";
    case MemoryKind::pinned:
      return "pinned";
    case MemoryKind::plain:
      return "plain";
  }
  return "?";
}

bool available(MemoryKind kind) {
  return kind == MemoryKind::plain || cuda() != nullptr;
}

Memory::Memory(MemoryKind kind, std::size_t size, int device)
    : kind_(kind), device_(device), size_(size), address_(allocate(kind, size, device)) {}

Memory::~Memory() {
  free();
}

void Memory::free() {
  void* const address = std::exchange(address_, nullptr);
  if (address == nullptr) return;
  if (kind_ == MemoryKind::plain) {
    munmap(address, size_);
    return;
  }
  const ContextScope scope(primary_context(device_));
  if (kind_ == MemoryKind::pinned) {
    cuda()->release_host(address);
  } else {
    cuda()->release(device_address(address));
  }
}

void Memory::put(std::size_t offset, std::span<const unsigned char> bytes) const {
  if (offset + bytes.size() > size_) throw std::out_of_range("Memory::put past the end");
  if (bytes.empty()) return;
  if (kind_ != MemoryKind::device) {
    std::memcpy(at(offset), bytes.data(), bytes.size());
    return;
  }
  const ContextScope scope(primary_context(device_));
  if (cuda()->to_device(device_address(at(offset)), bytes.data(), bytes.size()) != 0 ||
      cuda()->context_synchronize() != 0) {
    throw std::runtime_error("cuMemcpyHtoD failed");
  }
}

Bytes Memory::get(std::size_t offset, std::size_t length) const {
  if (offset + length > size_) throw std::out_of_range("Memory::get past the end");
  Bytes bytes(length);
  if (length == 0) return bytes;
  if (kind_ != MemoryKind::device) {
    std::memcpy(bytes.data(), at(offset), length);
    return bytes;
  }
  const ContextScope scope(primary_context(device_));
  if (cuda()->to_host(bytes.data(), device_address(at(offset)), length) != 0) {
    throw std::runtime_error("cuMemcpyDtoH failed");
  }
  return bytes;
}

void Memory::fill(unsigned char value) const {
  if (kind_ != MemoryKind::device) {
    std::memset(address_, value, size_);
    return;
  }
  const ContextScope scope(primary_context(device_));
  if (cuda()->fill(device_address(address_), value, size_) != 0 || cuda()->context_synchronize() != 0) {
    throw std::runtime_error("cuMemsetD8 failed");
  }
}

}  // namespace sluice::support
