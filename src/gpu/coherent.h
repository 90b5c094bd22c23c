// SPDX-License-Identifier: Apache-2.0
// Device memory that the CPU reaches by ordinary, cached loads and stores: on Grace Hopper, GB10 and their like. What a
// driver tells of a device is a hint, a trial decides, and for each transfer the driver is asked where its memory lies
// for the host. Nothing of ours loads or stores there: the kernel does, on behalf of pread and its like, to which an
// address that leads nowhere is EFAULT and no signal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "facts/buffer.h"

namespace sluice::gpu {

// The values of sluice.coherent.
enum class Coherent : std::uint8_t {
  never,
  automatic,  // where the driver says that CPU and device share memory by hardware
  always,     // wherever a trial succeeds
};

// What is known of the CPU's way to the memory of one device.
enum class CpuReach : std::uint8_t {
  untried,
  trying,
  reached,
  no_address,   // the driver tells no host address
  unreachable,  // the kernel does not get there
  other_bytes,  // it gets somewhere: what one side stores, the other one does not find
};

// Memory and its two sides, as a trial works on them.
class TwoSides {
 public:
  enum class Answer : std::uint8_t { done, unreachable, not_now };
  virtual Answer store_by_host(std::span<const std::byte> bytes) = 0;
  virtual Answer load_by_host(std::span<std::byte> bytes) = 0;
  virtual Answer store_by_device(std::span<const std::byte> bytes) = 0;
  virtual Answer load_by_device(std::span<std::byte> bytes) = 0;

 protected:
  ~TwoSides() = default;
};
// Each side finds what the other one stores, also where it has found something else there before. `untried` where a
// side could not do its part just now.
CpuReach try_both_sides(TwoSides& sides, std::span<std::byte> put, std::span<std::byte> found);

// Devices of which the driver has told that the CPU shares nothing with them by hardware: a bit each, by ordinal.
inline constinit std::atomic<std::uint64_t> told_to_be_apart{0};

// Of all others.
bool cpu_reaches_as_tried(const facts::BufferFacts& memory, Coherent wanted) noexcept;

// Whether file and memory may exchange bytes in place. Makes the trial where it is missing, unless the thread serves
// streams that wait: it copies on streams of our own. A load where nothing is to be tried: each transfer asks.
inline bool cpu_reaches(const facts::BufferFacts& memory, Coherent wanted) noexcept {
  if (wanted == Coherent::never || memory.device < 0) return false;
  const bool apart = (told_to_be_apart.load(std::memory_order_relaxed) >> (memory.device & 63) & 1) != 0;
  return !(apart && wanted == Coherent::automatic) && cpu_reaches_as_tried(memory, wanted);
}

// Where the host finds so many bytes of device memory; null where the driver does not tell (any more). One question, or
// two where no context owns the memory.
std::byte* cpu_address(const facts::BufferFacts& memory, std::uint64_t address, std::uint64_t length) noexcept;

// For people; "" where nothing tells of such a link.
std::string words_of_cpu_reach(const facts::BufferFacts& memory, Coherent wanted);

}  // namespace sluice::gpu
