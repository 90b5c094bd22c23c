// Between a slab and the memory of a request, whatever that memory is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/outcome.h"
#include "facts/buffer.h"
#include "gpu/memory.h"
#include "staging/meanwhile.h"
#include "staging/slab.h"

namespace sluice::paths {

enum class Manner : std::uint8_t {
  usual,
  kernel,       // sluice.copy: the gather kernel carries large reads wherever it can
  copy_engine,  // sluice.copy: the copy engine carries everything
  plain,        // SLUICE_MODE=plain: pageable slabs and the driver's plainest copies
};

// Lives as long as one piece is being moved: it keeps a context current. Answers all bytes, or why none. While a device
// copies, there is time for the file.
class Mover {
 public:
  Mover(const facts::BufferFacts& memory, Manner manner, staging::Slab& slab) noexcept;

  base::Outcome to_memory(std::uint64_t address, std::span<const std::byte> from,
                          staging::Meanwhile meanwhile = {}) noexcept;
  base::Outcome from_memory(std::span<std::byte> to, std::uint64_t address, staging::Meanwhile meanwhile = {}) noexcept;

 private:
  int end(int begun, std::uint64_t address, staging::Meanwhile& meanwhile) noexcept;

  Manner manner_;
  staging::Slab& slab_;
  std::optional<gpu::Session> session_;  // none for host memory
  // Nothing that takes long has been done since the memory was looked up: no stream made, nothing pinned or copied.
  bool just_begun_ = false;
};

}  // namespace sluice::paths
