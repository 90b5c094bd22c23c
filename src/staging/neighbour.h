// SPDX-License-Identifier: Apache-2.0
// Other GPUs whose link to the host carries a part of a large read or write: pinned memory of the host -> memory of the
// neighbour -> by peer copy to the target, and the other way round. The neighbour's engine works on the half with the
// host ("push" of a read), the target's on the half between both ("pull"), so the program's peer settings are not
// touched. Or, of a read, a kernel on the neighbour takes the bytes from pinned memory and writes them to the target;
// or, where that would touch them, into *relay memory* of the neighbour's, out of which a kernel of the target's
// fetches them. A neighbour serves one request at a time, and by a kernel the next one while the last chunks of that
// are carried. What it cannot do costs a reason, never an error.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "gpu/memory.h"
#include "gpu/session.h"
#include "staging/lending.h"
#include "staging/staging_buffer.h"

namespace sluice::staging {

// What it has to reach.
struct KernelReach {
  cuda::DevicePtr target;
  std::uint64_t length;
  std::byte* places;  // of the host's, pinned for all contexts
  // Of relay memory, where it reaches the target in no other way. 0: then it carries nothing.
  std::uint64_t relay_bytes = 0;
};

// Which other GPUs come into question for this one, by ordinal: those that are idle now, or whether they are or not.
// Nothing is touched.
enum class Idle : std::uint8_t { now, in_time };
std::uint64_t who_may_lend(int target, const LendingRules& rules, Idle idle) noexcept;

// Staging memory that no transfer has passed for so long is given back to its device: by the next transfer of any size
// that lending holds for, and by the end of the session (`unused` 0). What a neighbour has yet to copy there keeps it.
inline constexpr std::chrono::seconds neighbours_rest{2};
void free_unused_neighbours(std::chrono::nanoseconds unused) noexcept;
// Is there anything to be given back?
bool holds_of_neighbours() noexcept;

// A transfer that has this device for its target, while it lives: its link is not idle.
class LinkInUse {
 public:
  explicit LinkInUse(int device) noexcept;
  ~LinkInUse();
  LinkInUse(const LinkInUse&) = delete;
  LinkInUse& operator=(const LinkInUse&) = delete;

 private:
  int device_;
};

// What a neighbour's kernels write to where they do not reach the target. One read has it until its last byte is
// fetched.
struct RelayMemory;

// One request's use of one neighbour.
class NeighbourLease {
 public:
  // Pieces that are on their way through its memory at a time.
  static constexpr std::uint32_t most_pieces = 4;
  static constexpr std::uint64_t largest_piece = std::uint64_t{2} << 20U;

  NeighbourLease() = default;
  NeighbourLease(const NeighbourLease&) = delete;
  NeighbourLease& operator=(const NeighbourLease&) = delete;
  ~NeighbourLease() { give_back(); }

  // With the target's context current, by its session. False: it does not lend, for a reason that is kept for people.
  // By a kernel, where that is to reach something; else by copies.
  bool take(int neighbour, int target, const gpu::Session& session, const LendingRules& rules,
            const KernelReach* reach) noexcept;
  void give_back() noexcept;

  explicit operator bool() const noexcept { return device_ >= 0; }
  int device() const noexcept { return device_; }
  cuda::Context context() const noexcept { return context_; }
  std::uint64_t piece_bytes() const noexcept { return piece_bytes_; }
  cuda::DevicePtr place(std::uint32_t piece) const noexcept { return memory_ + (piece % most_pieces) * piece_bytes_; }
  // Between the host and the neighbour: with its context current. And, of copies, between the neighbour and the target.
  StagingLease& host_side() noexcept { return *host_side_; }
  StagingLease& target_side() noexcept { return *target_side_; }
  // Of a kernel: the host's places, as its device sees them. 0: the neighbour goes by copies.
  cuda::DevicePtr places_there() const noexcept { return places_there_; }
  // Where the kernel writes to, in place of the target, and what a kernel of the target goes by that fetches it there.
  struct Relay {
    cuda::DevicePtr memory = 0;  // 0: it writes to the target
    std::uint64_t bytes = 0;
    StagingLease* target_side = nullptr;
  };
  Relay relay() noexcept;
  // It has begun something for itself.
  bool is_wanted_elsewhere() const noexcept;
  // It is given back with copies of the host side under way, which no thread waits for: up to this mark.
  void leaves_late(std::uint32_t mark) noexcept { late_ = mark; }
  // The next request may take it, while what this one has given its kernel is carried. (What copies go through is one
  // request's at a time: a neighbour that goes by them stays.)
  void hand_on() noexcept;
  // The device has refused something, or is lost.
  void is_broken() noexcept { broken_ = true; }
  // The target is lost while it fetches.
  void target_is_lost() noexcept { target_side_->condemn(); }

 private:
  Lent make_ready(int neighbour, int target, const gpu::Session& session, const LendingRules& rules,
                  const KernelReach* reach) noexcept;
  KernelThere make_kernel_ready(int neighbour, int target, const LendingRules& rules,
                                const KernelReach& reach) noexcept;
  KernelThere take_relay_memory(int neighbour, int target, const LendingRules& rules,
                                const KernelReach& reach) noexcept;
  void drop_all() noexcept;
  void leave_context(int neighbour) noexcept;

  int device_ = -1;
  cuda::Context context_ = nullptr;
  cuda::DevicePtr memory_ = 0;
  cuda::DevicePtr places_there_ = 0;
  RelayMemory* relay_memory_ = nullptr;
  std::uint64_t piece_bytes_ = 0;
  std::uint32_t late_ = 0;
  bool broken_ = false;
  bool handed_on_ = false;
  bool holds_context_ = false;
  std::optional<StagingLease> host_side_;
  std::optional<StagingLease> target_side_;
};

// Of one request: up to so many, in the order that topology::lenders_of() gives.
class Neighbours {
 public:
  static constexpr std::size_t most = 3;
  // Two links carry what all readers together take out of the page cache. On four H200s 1 GiB has 88 GiB/s with one
  // neighbour, whichever it is, 74 with two and 76 with three.
  static constexpr std::size_t most_by_kernels = 1;
  // All by kernels, where one of them can and `reach` says what to; else all by copies, or none.
  enum class Else : std::uint8_t { copies, nothing };
  Neighbours(int target, const gpu::Session& session, const LendingRules& rules, const KernelReach* reach = nullptr,
             Else otherwise = Else::copies) noexcept;

  bool by_kernels() const noexcept { return count_ > 0 && leases_[0].places_there() != 0; }
  std::span<NeighbourLease> all() noexcept { return {leases_.data(), count_}; }
  std::size_t count() const noexcept { return count_; }

 private:
  void take(int target, const gpu::Session& session, const LendingRules& rules, const KernelReach* reach) noexcept;

  std::array<NeighbourLease, most> leases_;
  std::size_t count_ = 0;
};

// For people: "GPU1: lends its link, by a kernel, GPU2: no peer access"; "" where there is nothing to say.
std::string words_of_neighbours(int target);

void neighbours_after_fork_in_child() noexcept;

}  // namespace sluice::staging
