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
#include <string_view>

#include "gpu/memory.h"
#include "gpu/session.h"
#include "staging/staging_buffer.h"

namespace sluice::staging {

// sluice.links.
struct LendingRules {
  bool on = false;
  bool named = false;                         // a list of devices: these, by whatever link
  bool makes_contexts = false;                // also on devices that the process does not work with
  std::uint64_t devices = ~std::uint64_t{0};  // by ordinal
  std::uint64_t least_bytes = 0;              // of a transfer: sluice.links_min_kb
  std::uint64_t most_bytes = 0;               // of staging memory on each: properties.max_device_cache_size_kb
  // Else it is as by itself: only by kernels, and only where nothing changes for the program.
  bool asked = true;
  // sluice.links_copy.
  bool by_kernel = true;       // where kernels can carry a read
  bool switches_peers = true;  // for that, peer access of the program's contexts
};
// "auto", "own", "lend", "0,2": nothing where the text is something else.
std::optional<LendingRules> lending_rules(std::string_view text, std::uint64_t least_bytes, std::uint64_t most_bytes);

// What became of a neighbour when it was asked last.
enum class Lent : std::uint8_t {
  never_asked,
  lends,
  no_peer_access,  // the target does not reach its memory
  no_nvlink,       // and it was not named
  not_in_use,      // by the process, and it was not named
  not_used_yet,    // by a transfer of ours, and it was not asked for: our kernels are not in its primary context
  no_context,      // none can be made: another process has it for itself, or it is broken
  at_work,         // for itself, or for another request
  no_memory,       // on it, or pinned
  no_kernel,       // while a read is carried by kernels alone
  late,            // it has not done yet what it was relieved of
};
const char* words_of(Lent answer) noexcept;

// And a kernel there.
enum class KernelThere : std::uint8_t {
  unwanted,  // by sluice.links_copy, or for this transfer
  carries,   // into the target's memory
  relays,    // into memory of its own
  no_relay_memory,
  no_fetcher,    // on the target
  out_of_reach,  // the target's memory is, for kernels of the neighbour
  not_loaded,    // yet, or its device will not have it
  was_late,      // it did not begin in time just now
  no_places,     // pinned memory that its device sees
  was_refused,   // just now, or its device was lost
};
const char* words_of(KernelThere answer) noexcept;

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
