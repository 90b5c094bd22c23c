// SPDX-License-Identifier: Apache-2.0
// Memory of every kind that cuFile takes, with the same face: put bytes in, get bytes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "support/random.h"

namespace sluice::support {

enum class MemoryKind : std::uint8_t { device, managed, pinned, plain };

const char* name_of(MemoryKind kind);

// True when this machine has the kind: plain memory always, the others with a driver.
bool available(MemoryKind kind);

// An allocation that is freed at the end of the scope. Copies wait for what the legacy stream has to do.
class Memory {
 public:
  Memory(MemoryKind kind, std::size_t size, int device = 0);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  MemoryKind kind() const { return kind_; }
  std::size_t size() const { return size_; }
  // As cuFile gets it; only host kinds may be touched through it.
  void* address() const { return address_; }
  void* at(std::size_t offset) const { return static_cast<unsigned char*>(address_) + offset; }

  void put(std::size_t offset, std::span<const unsigned char> bytes) const;
  Bytes get(std::size_t offset, std::size_t length) const;
  Bytes get() const { return get(0, size_); }
  void fill(unsigned char value) const;
  // Gives the memory back early; nothing else may be called afterwards.
  void free();

 private:
  MemoryKind kind_;
  int device_;
  std::size_t size_;
  void* address_ = nullptr;
};

}  // namespace sluice::support
