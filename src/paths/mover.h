// Between a slab and the memory of a request, whatever that memory is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/outcome.h"
#include "engine/slab.h"
#include "engine/warming.h"
#include "facts/buffer.h"
#include "facts/look.h"
#include "gpu/memory.h"

namespace sluice::paths {

enum class Manner : std::uint8_t {
  usual,
  kernel,       // sluice.copy: the gather kernel carries large reads wherever it can
  copy_engine,  // sluice.copy: the copy engine carries everything
  plain,        // SLUICE_MODE=plain: pageable slabs and the driver's plainest copies
};

// What a file wants before it is written, done while a device copies: a look whether the descriptor still belongs to
// it, and then warming the place.
class BeforeAWrite {
 public:
  BeforeAWrite(facts::Look& now, engine::Warming place) noexcept : now_(now), place_(place) {}

  // False: nothing is left to do.
  bool step() noexcept {
    const bool was_asked = now_.asked();
    if (!now_.finds_the_file()) return false;
    return !was_asked || place_.step();
  }
  bool looked() const noexcept { return now_.asked(); }

 private:
  facts::Look& now_;
  engine::Warming place_;
};

// Lives as long as one piece is being moved: it keeps a context current. Answers all bytes, or why none. While a device
// copies, there is time for the file: to warm what the caller will want of it next, or what a write wants before it.
class Mover {
 public:
  Mover(const facts::BufferFacts& memory, Manner manner, engine::Slab& slab) noexcept;

  base::Outcome to_memory(std::uint64_t address, std::span<const std::byte> from,
                          engine::Warming meanwhile = {}) noexcept;
  base::Outcome from_memory(std::span<std::byte> to, std::uint64_t address, BeforeAWrite& meanwhile) noexcept;
  base::Outcome from_memory(std::span<std::byte> to, std::uint64_t address) noexcept;

 private:
  template <typename Meanwhile>
  int end(int begun, std::uint64_t address, Meanwhile& meanwhile) noexcept;
  template <typename Meanwhile>
  base::Outcome fetch(std::span<std::byte> to, std::uint64_t address, gpu::Asked memory, Meanwhile& meanwhile) noexcept;

  Manner manner_;
  engine::Slab& slab_;
  std::optional<gpu::Session> session_;  // none for host memory
  // Nothing that takes long has been done since the memory was looked up: no stream made, nothing pinned or copied.
  bool just_begun_ = false;
};

}  // namespace sluice::paths
