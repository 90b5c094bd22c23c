// SPDX-License-Identifier: Apache-2.0
// The trial, once a device and process: on memory of our own, by the calls that transfers use.
#include "gpu/coherent.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <vector>

#include "base/unique_fd.h"
#include "facts/coherence.h"
#include "gpu/cuda_api.h"
#include "gpu/memory.h"
#include "gpu/pinnable.h"
#include "gpu/session.h"

namespace sluice::gpu {

namespace {

using facts::BufferFacts;
using facts::MemoryKind;

constexpr std::uint64_t trial_bytes = 65536;
constexpr unsigned trial_rounds = 2;

// What the driver has told of a device, a bit each.
constexpr std::uint8_t has_told = 1;
constexpr std::uint8_t told_coherent = 2;
constexpr std::uint8_t told_concurrent = 4;

struct KnownReach {
  std::atomic<std::uint8_t> told{0};
  std::atomic<CpuReach> reach{CpuReach::untried};
  std::atomic<std::uint32_t> asked{0};  // for a trial that could not be made
};
constinit std::array<KnownReach, max_devices> known_reaches{};
static_assert(max_devices <= 64, "a bit each in told_to_be_apart");

std::uint8_t ask_driver(int ordinal) noexcept {
  const CudaApi* const driver = gpu::driver();
  cuda::Device device = 0;
  if (driver == nullptr || driver->device_get_attribute == nullptr ||
      driver->device_get(&device, ordinal) != cuda::success) {
    return has_told;
  }
  const auto has = [&](int attribute) {
    int value = 0;
    return driver->device_get_attribute(&value, attribute, device) == cuda::success && value != 0;
  };
  const facts::CoherenceFacts device_says{
      has(cuda::device_attribute_pageable_uses_host_page_tables), has(cuda::device_attribute_integrated),
      has(cuda::device_attribute_pageable_memory_access), has(cuda::device_attribute_concurrent_managed_access)};
  return static_cast<std::uint8_t>(has_told | (facts::is_said_coherent(device_says) ? told_coherent : 0) |
                                   (device_says.concurrent_managed ? told_concurrent : 0));
}

// Null where there is nothing to know.
KnownReach* known_of(const BufferFacts& memory) noexcept {
  if (facts::is_host(memory.kind) || memory.device < 0) return nullptr;
  const auto device = static_cast<std::size_t>(memory.device);
  return device < known_reaches.size() ? &known_reaches[device] : nullptr;
}

std::uint8_t told_of(KnownReach& known, int ordinal) noexcept {
  std::uint8_t bits = known.told.load(std::memory_order_relaxed);
  if (bits != 0) return bits;
  bits = ask_driver(ordinal);
  known.told.store(bits, std::memory_order_relaxed);
  if ((bits & told_coherent) == 0) told_to_be_apart.fetch_or(std::uint64_t{1} << ordinal, std::memory_order_relaxed);
  return bits;
}

std::uint64_t host_pointer(const CudaApi& driver, std::uint64_t address) noexcept {
  void* host = nullptr;
  std::array<int, 1> attributes{cuda::pointer_attribute_host_pointer};
  std::array<void*, 1> values{&host};
  const cuda::Result result = driver.pointer_get_attributes(1, attributes.data(), values.data(), address);
  return result == cuda::success ? reinterpret_cast<std::uint64_t>(host) : 0;
}

// The host's side goes through a pipe: no limit of the process's binds it, and no signal comes of it.
class OnDevice final : public TwoSides {
 public:
  OnDevice(Session& session, std::uint64_t device, std::byte* host) : session_(session), device_(device), host_(host) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
    out_ = base::UniqueFd(ends[0]);
    in_ = base::UniqueFd(ends[1]);
  }

  Answer store_by_host(std::span<const std::byte> bytes) override { return pass(bytes.data(), host_, bytes.size()); }
  Answer load_by_host(std::span<std::byte> bytes) override { return pass(host_, bytes.data(), bytes.size()); }
  Answer store_by_device(std::span<const std::byte> bytes) override {
    return session_.copy_to_device(device_, bytes) == cuda::success ? Answer::done : Answer::not_now;
  }
  Answer load_by_device(std::span<std::byte> bytes) override {
    return session_.copy_from_device(bytes, device_) == cuda::success ? Answer::done : Answer::not_now;
  }

 private:
  // What any pipe has room for at once.
  static constexpr std::size_t piece = 4096;

  Answer pass(const std::byte* from, std::byte* to, std::size_t size) const {
    for (std::size_t done = 0; done < size; done += piece) {
      const std::size_t length = std::min(piece, size - done);
      ssize_t moved = ::write(in_.get(), from + done, length);
      if (moved == static_cast<ssize_t>(length)) moved = ::read(out_.get(), to + done, length);
      if (moved == static_cast<ssize_t>(length)) continue;
      return moved >= 0 || errno == EFAULT ? Answer::unreachable : Answer::not_now;
    }
    return Answer::done;
  }

  Session& session_;
  const std::uint64_t device_;
  std::byte* const host_;
  base::UniqueFd out_;
  base::UniqueFd in_;
};

// In the context that the memory belongs to.
CpuReach make_trial(const BufferFacts& memory) {
  std::vector<std::byte> put(trial_bytes);
  std::vector<std::byte> found(trial_bytes);
  Session session(memory);
  if (session.status() != cuda::success) return CpuReach::untried;
  const std::optional<Scratch> scratch = plain_scratch().take(memory.device, trial_bytes);
  if (!scratch) return CpuReach::untried;
  CpuReach reach = CpuReach::no_address;
  if (std::byte* const host = cpu_address(scratch->memory, scratch->address, trial_bytes)) {
    OnDevice sides(session, scratch->address, host);
    reach = try_both_sides(sides, put, found);
  }
  plain_scratch().give_back(*scratch);
  return reach;
}

// After the first asking, the second, the fourth, ...: where a trial cannot be made, few transfers try.
CpuReach tried(KnownReach& known, const BufferFacts& memory) noexcept {
  const CpuReach now = known.reach.load(std::memory_order_acquire);
  if (now != CpuReach::untried || serves_waiting_streams()) return now;
  const std::uint32_t asked = known.asked.fetch_add(1, std::memory_order_relaxed) + 1;
  CpuReach expected = CpuReach::untried;
  if ((asked & (asked - 1)) != 0 ||
      !known.reach.compare_exchange_strong(expected, CpuReach::trying, std::memory_order_acq_rel)) {
    return known.reach.load(std::memory_order_acquire);
  }
  CpuReach reach = CpuReach::untried;
  try {
    reach = make_trial(memory);
  } catch (...) {  // NOLINT(bugprone-empty-catch): without memory it stays untried
  }
  known.reach.store(reach, std::memory_order_release);
  return reach;
}

const char* sentence_of(CpuReach reach) noexcept {
  switch (reach) {
    case CpuReach::untried:
    case CpuReach::trying:
      return "no trial has been made so far";
    case CpuReach::reached:
      return "file and memory exchange bytes in place";
    case CpuReach::no_address:
      return "the driver tells no address at which the CPU finds it";
    case CpuReach::unreachable:
      return "the kernel does not get to the address that the driver tells (EFAULT)";
    case CpuReach::other_bytes:
      return "a trial found other bytes on one side than were stored on the other";
  }
  return "";
}

}  // namespace

CpuReach try_both_sides(TwoSides& sides, std::span<std::byte> put, std::span<std::byte> found) {
  const auto same = [&] { return std::equal(put.begin(), put.end(), found.begin(), found.end()); };
  for (unsigned round = 0; round < 2 * trial_rounds; ++round) {
    for (std::size_t i = 0; i < put.size(); ++i)
      put[i] = static_cast<std::byte>(i * 131 + i / 251 + std::size_t{round} * 85 + 1);
    std::fill(found.begin(), found.end(), std::byte{0});
    const bool host_stores = round % 2 == 0;
    TwoSides::Answer answer = host_stores ? sides.store_by_host(put) : sides.store_by_device(put);
    if (answer == TwoSides::Answer::done)
      answer = host_stores ? sides.load_by_device(found) : sides.load_by_host(found);
    if (answer == TwoSides::Answer::unreachable) return CpuReach::unreachable;
    if (answer == TwoSides::Answer::not_now) return CpuReach::untried;
    if (!same()) return CpuReach::other_bytes;
  }
  return CpuReach::reached;
}

bool cpu_reaches_as_tried(const BufferFacts& memory, Coherent wanted) noexcept {
  KnownReach* const known = known_of(memory);
  if (known == nullptr) return false;
  const std::uint8_t bits = told_of(*known, memory.device);
  if (wanted == Coherent::automatic && (bits & told_coherent) == 0) return false;
  // That the host may touch managed memory is what managed means, where both may do so at the same time.
  if (memory.kind == MemoryKind::managed) return (bits & told_concurrent) != 0;
  return tried(*known, memory) == CpuReach::reached;
}

// A range of one allocation has one address; of mappings and pools, whose end is not known, the last byte is asked for.
std::byte* cpu_address(const BufferFacts& memory, std::uint64_t address, std::uint64_t length) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr || length == 0) return nullptr;
  const std::uint64_t first = host_pointer(*driver, address);
  if (first == 0) return nullptr;
  const std::uint64_t last = length - 1;
  if (!memory.is_known_to_hold(address, length) && host_pointer(*driver, address + last) != first + last) {
    return nullptr;
  }
  return reinterpret_cast<std::byte*>(first);
}

std::string words_of_cpu_reach(const BufferFacts& memory, Coherent wanted) {
  KnownReach* const known = wanted != Coherent::never ? known_of(memory) : nullptr;
  if (known == nullptr) return "";
  const bool said = (told_of(*known, memory.device) & told_coherent) != 0;
  if (!said && wanted != Coherent::always) return "";
  const bool reaches = cpu_reaches(memory, wanted);
  const std::string from = said ? "the driver says that the CPU shares this memory" : "sluice.coherent is on";
  if (memory.kind == MemoryKind::managed) {
    return from + ": " + (reaches ? sentence_of(CpuReach::reached) : "not while the device may be at managed memory");
  }
  return from + ": " + sentence_of(known->reach.load(std::memory_order_acquire));
}

}  // namespace sluice::gpu
