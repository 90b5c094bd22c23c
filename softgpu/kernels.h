// SPDX-License-Identifier: Apache-2.0
// Kernels that the soft GPU can run: host twins of the PTX that Sluice ships, found by the name of the entry point.
//
// A twin does what one whole launch does, blocks and threads one after the other or in any order that the PTX allows.
// It runs on the thread of its stream, after all that was put into that stream before. It may wait for words in memory
// that the host, another stream or another kernel will set; nothing interrupts it, so each of its waits also looks at
// ended(), besides whatever word of its own tells it to give up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "allocation.h"
#include "channel.h"

namespace sluice::softgpu {

class Workspace;

struct Dimensions {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;

  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

// What a kernel did that ends its context. Thrown by Launch, and by twins.
struct KernelFault {
  cuda::Result code;
};

struct LaunchShape {
  Dimensions grid;
  Dimensions block;
  unsigned shared_bytes = 0;
};

// One launch, as a twin sees it. Used by one thread.
class Launch {
 public:
  // `parameters` lie one behind the other, each `sizes[i]` bytes at a multiple of its size.
  Launch(const LaunchShape& shape, std::span<const std::byte> parameters, std::span<const std::size_t> sizes,
         Workspace& workspace, const Health& health)
      : shape_(shape), parameters_(parameters), sizes_(sizes), workspace_(workspace), health_(health) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() = default;

  const Dimensions& grid() const { return shape_.grid; }
  const Dimensions& block() const { return shape_.block; }
  unsigned shared_bytes() const { return shape_.shared_bytes; }

  // The parameter of that number, counted from 0, as it was when the launch was made (or captured).
  template <typename Value>
  Value parameter(std::size_t index) const {
    Value value{};
    std::memcpy(&value, parameter_bytes(index, sizeof value), sizeof value);
    return value;
  }

  // Where the host finds what the kernel finds at an address: memory of a device, managed, pinned or registered. Good
  // for as long as the launch runs, even when a program frees the memory too early. Faults on any other address, and
  // where the bytes do not lie together (adjacent mappings: use copy()), or are another device's that does not let
  // this one write them.
  std::byte* reach(std::uint64_t address, std::uint64_t size) const;
  // A word that others look at meanwhile. Faults when the address is no multiple of its size.
  template <typename Value>
  std::atomic_ref<Value> word(std::uint64_t address) const {
    return std::atomic_ref<Value>(*static_cast<Value*>(word_bytes(address, sizeof(Value))));
  }
  // Loads and stores of a whole range, across adjacent mappings.
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t size) const;
  // The two halves of that: what has been loaded is the kernel's own until it stores it.
  void load(std::vector<std::byte>& into, std::uint64_t from, std::uint64_t size) const;
  void store(std::uint64_t to, std::vector<std::byte>& bytes) const;

  // The context is gone or broken: the kernel leaves at once, whatever it waits for.
  bool ended() const noexcept { return health_.broken(); }

 private:
  const std::byte* parameter_bytes(std::size_t index, std::size_t size) const;
  void* word_bytes(std::uint64_t address, std::uint64_t size) const;

  LaunchShape shape_;
  std::span<const std::byte> parameters_;
  std::span<const std::size_t> sizes_;
  Workspace& workspace_;
  const Health& health_;
  mutable std::vector<std::shared_ptr<Allocation>> reached_;
};

// Where a parameter of that size begins, behind one that ends there.
constexpr std::size_t parameter_offset(std::size_t end, std::size_t size) {
  return (end + size - 1) / size * size;
}

using Twin = void (*)(const Launch&);

struct KernelTwin {
  std::string_view name;  // of the .entry
  Twin run;
};

// All twins there are: kernels.cpp lists them, a line each.
std::span<const KernelTwin> kernel_twins();

// Null when there is none of that name.
const KernelTwin* find_twin(std::string_view name);

}  // namespace sluice::softgpu
