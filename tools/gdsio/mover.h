// SPDX-License-Identifier: Apache-2.0
// How the bytes of one thread go: one class for each -x.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/gpu.h"
#include "gdsio/settings.h"
#include "gdsio/target.h"

namespace sluice::tools {

// One transfer: what is to happen and, afterwards, how it went.
struct Piece {
  const Target* target = nullptr;
  std::uint64_t file_offset = 0;
  std::size_t size = 0;
  std::size_t memory_offset = 0;
  bool writes = false;
  std::int64_t done = 0;  // bytes; negative: the cause, an errno or a cuFile code
  std::chrono::nanoseconds time{};
};

class Mover {
 public:
  virtual ~Mover() = default;
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  // Carries all of them, more than one at a time where the kind is a batch, and fills in done and time.
  virtual void move(std::span<Piece> pieces) = 0;
  // Waits for what move() may have left under way.
  virtual void drain() {}

 protected:
  Mover() = default;
};

// For the thread that calls, whose context is current where `gpu` is not nullptr. `memory` is what the pieces' offsets
// count in: as -m says, and for -x 1 host memory. At most `depth` pieces at a time. Throws ToolError.
std::unique_ptr<Mover> make_mover(const Settings& settings, const Gpu* gpu, TransferMemory& memory, unsigned depth);

}  // namespace sluice::tools
