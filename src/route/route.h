// SPDX-License-Identifier: Apache-2.0
// Facts + rules -> reasons; a shape -> segments. Pure functions: no I/O, no state, nothing from paths/, io/ or gpu/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/strong.h"
#include "facts/buffer.h"
#include "facts/file.h"
#include "facts/machine.h"
#include "facts/nvfs.h"
#include "facts/trial_result.h"
#include "route/decision.h"

namespace sluice::route {

// The part of the configuration that decides ways.
struct Rules {
  bool plain = false;           // SLUICE_MODE=plain
  bool force_compat = false;    // properties.force_compat_mode
  bool use_pci_p2pdma = false;  // properties.use_pci_p2pdma
  bool allow_compat = true;     // properties.allow_compat_mode
  bool use_nvfs = false;        // sluice.nvfs is not "off"
  bool nvfs_first = false;      // it is "first": before p2pdma
};

struct Shape {
  base::Direction direction = base::Direction::read;
  std::uint64_t file_offset = 0;
  std::uint64_t address = 0;  // of the first byte in memory
  std::uint64_t size = 0;     // 0: any; there are no segments then
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

// The reasons why a drive does not move the bytes of device memory itself, in the order of docs/reference/paths.md.

// The first of those that no trial is needed for.
std::optional<Reason> kept_from_drive(const facts::FileFacts& file, const facts::BufferFacts& buffer,
                                      const facts::MachineFacts& machine, const Rules& rules) noexcept;
// Where there is none: what a trial of this device and this storage says. SLUICE_REASON_DIRECT: nothing is in the way.
Reason after_trial(const facts::FileFacts& file, facts::TrialResult reach) noexcept;

// The same for the way by nvidia-fs.ko: what is known of it before any call.
struct NvfsStanding {
  bool loaded = false;
  bool recent = false;                                 // 2.12 or later
  bool open = false;                                   // one of its nodes is
  facts::NvfsHooks hooks = facts::NvfsHooks::unknown;  // below the file
};
std::optional<Reason> kept_from_nvfs(const facts::FileFacts& file, const facts::BufferFacts& buffer,
                                     const NvfsStanding& nvfs, const Rules& rules) noexcept;

// Every such reason, in the same order; never empty. For people: not on the I/O path.
std::vector<Reason> all_reasons(const facts::FileFacts& file, const facts::BufferFacts& buffer,
                                const facts::MachineFacts& machine, const Rules& rules, facts::TrialResult reach);

// The reason for a reach.
Reason reason_of(facts::TrialResult reach) noexcept;

// Whether the configuration lets the CPU move the bytes of device memory. Forcing it allows it.
bool compat_is_allowed(const Rules& rules) noexcept;

// The same of a request that the CPU is to move for this reason. Host memory needs no permission.
bool cpu_may_move(Reason reason, const Rules& rules) noexcept;

// Whether this machine can have a more direct path than the CPU's at all, whatever the file.
bool has_direct_way(const facts::MachineFacts& machine, const Rules& rules) noexcept;

// How a path wants requests cut.
struct Cutting {
  bool by_blocks = false;                     // otherwise one segment, whatever is asked for
  SegmentMode whole = SegmentMode::straight;  // how that one goes, or the whole blocks do
  std::uint64_t memory_alignment = 1;         // what the whole blocks need of addresses,
  std::uint64_t offset_alignment = 1;         // and of offsets and lengths
  std::uint64_t cache_page = 1;               // what writes leave whole to the page cache, or not at all
};
// As one: host memory in place, device memory through a bounce buffer.
Cutting uncut(facts::MemoryKind kind) noexcept;
// For the CPU: what O_DIRECT takes as it is goes in place.
Cutting cut_for_cpu(const facts::FileFacts& file, facts::MemoryKind kind, const Rules& rules) noexcept;
// For the drive.
Cutting cut_for_drive(const facts::FileFacts& file) noexcept;

// A request of some bytes.
void cut(Segments& segments, const Cutting& cutting, const Shape& shape) noexcept;

}  // namespace sluice::route
