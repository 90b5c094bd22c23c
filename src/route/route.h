// Facts + rules + the shape of a request -> Decision. Pure functions: no I/O, no state, nothing from paths/, engine/
// or gpu/.
#pragma once

#include <cstdint>

#include "base/strong.h"
#include "facts/buffer.h"
#include "facts/file.h"
#include "facts/machine.h"
#include "route/decision.h"

namespace sluice::route {

// The part of the configuration that decides ways.
struct Rules {
  bool plain = false;           // SLUICE_MODE=plain
  bool force_compat = false;    // properties.force_compat_mode
  bool use_pci_p2pdma = false;  // properties.use_pci_p2pdma
};

struct Shape {
  base::Direction direction = base::Direction::read;
  std::uint64_t file_offset = 0;
  std::uint64_t address = 0;  // of the first byte in memory
  std::uint64_t size = 0;     // 0: only path and reason are decided, no segments
  // Where the file ends now. An O_DIRECT read that gets there fills the rest of the last block behind the bytes that
  // it counts: for host memory, what lies behind the last whole block goes through a slab. Unknown or a block device:
  // leave it.
  std::uint64_t file_end = ~std::uint64_t{0};
};

// The verdict that holds for every request of one direction between this file and this kind of memory.
struct Verdict {
  Path path = SLUICE_PATH_POSIX;
  Reason reason = SLUICE_REASON_HOST_MEMORY;
};

// The path and the first reason, in the order of docs/paths.md, that keeps the bytes from a more direct one. It holds
// as long as its arguments do: keep it with the handle if it is asked for often.
Verdict judge(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
              const Rules& rules, base::Direction direction) noexcept;

// judge(), and the request cut into segments.
Decision decide(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
                const Rules& rules, const Shape& shape) noexcept;

}  // namespace sluice::route
