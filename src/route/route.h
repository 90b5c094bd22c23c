// SPDX-License-Identifier: Apache-2.0
// Facts + rules + the shape of a request -> Decision. Pure functions: no I/O, no state, nothing from paths/, io/
// or gpu/.
#pragma once

#include <cstdint>
#include <vector>

#include "base/strong.h"
#include "facts/buffer.h"
#include "facts/file.h"
#include "facts/machine.h"
#include "facts/trial_result.h"
#include "route/decision.h"

namespace sluice::route {

// The part of the configuration that decides ways.
struct Rules {
  bool plain = false;           // SLUICE_MODE=plain
  bool force_compat = false;    // properties.force_compat_mode
  bool use_pci_p2pdma = false;  // properties.use_pci_p2pdma
  bool allow_compat = true;     // properties.allow_compat_mode
};

struct Shape {
  base::Direction direction = base::Direction::read;
  std::uint64_t file_offset = 0;
  std::uint64_t address = 0;  // of the first byte in memory
  std::uint64_t size = 0;     // 0: only path and reason are decided, no segments
  // Where the file ends now. An O_DIRECT read that gets there fills the rest of the last block behind the bytes that
  // it counts: for host memory, what lies behind the last whole block goes through a bounce buffer. Unknown or a block
  // device: leave it.
  std::uint64_t file_end = ~std::uint64_t{0};
};

// Device memory is handed to a drive at addresses that are multiples of this, also where the kernel asks for less: that
// is about host memory, and what a trial has not shown is not trusted.
inline constexpr std::uint32_t trusted_memory_alignment = 512;

// The choice that holds for every request of one direction between this file and this kind of memory.
struct RouteChoice {
  Path path = SLUICE_PATH_POSIX;
  Reason reason = SLUICE_REASON_HOST_MEMORY;
};

// The path and the first reason, in the order of docs/reference/paths.md, that keeps the bytes from a more direct one.
// It holds as long as its arguments do. `reach` is what is known of this device and this storage.
RouteChoice judge(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
                  const Rules& rules, base::Direction direction, facts::TrialResult reach) noexcept;

// Every such reason, in the same order; never empty. For people: not on the I/O path.
std::vector<Reason> all_reasons(const facts::FileFacts& file, const facts::BufferFacts& buffer,
                                const facts::MachineFacts& machine, const Rules& rules, facts::TrialResult reach);

// The reason for a reach.
Reason reason_of(facts::TrialResult reach) noexcept;

// Whether the configuration lets the CPU move the bytes of device memory. Forcing it allows it.
bool compat_is_allowed(const Rules& rules) noexcept;

// Whether a request with this choice may be carried out. Host memory needs nobody's leave, nor do the operations of a
// user-space file system.
bool is_permitted(const RouteChoice& choice, const Rules& rules) noexcept;

// Whether this machine can have a more direct path than posix at all, whatever the file.
bool has_direct_way(const facts::MachineFacts& machine, const Rules& rules) noexcept;

// judge(), and the request cut into segments. A request of which nothing can go direct gets the path posix.
Decision decide(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
                const Rules& rules, const Shape& shape, facts::TrialResult reach) noexcept;

}  // namespace sluice::route
