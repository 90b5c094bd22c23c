// SPDX-License-Identifier: Apache-2.0
// Between a bounce buffer and the memory of a request, whatever that memory is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/outcome.h"
#include "facts/buffer.h"
#include "gpu/memory.h"
#include "gpu/session.h"
#include "paths/options.h"
#include "staging/bounce_buffer.h"
#include "staging/overlap_work.h"

namespace sluice::paths {

// Lives as long as one piece is being moved: it keeps a context current. Answers all bytes, or why none. While a device
// copies, there is time for the file.
class BounceCopier {
 public:
  BounceCopier(const facts::BufferFacts& memory, CopyMode copy_mode, staging::BounceBuffer& bounce) noexcept;

  base::Outcome to_memory(std::uint64_t address, std::span<const std::byte> from,
                          staging::OverlapWork overlap = {}) noexcept;
  base::Outcome from_memory(std::span<std::byte> to, std::uint64_t address, staging::OverlapWork overlap = {}) noexcept;

 private:
  cuda::Result end(cuda::Result begun, std::uint64_t address, staging::OverlapWork& overlap) noexcept;

  CopyMode copy_mode_;
  staging::BounceBuffer& buffer_;
  std::optional<gpu::Session> session_;  // none for host memory
  // Nothing that takes long has been done since the memory was looked up: no stream made, nothing pinned or copied.
  bool just_begun_ = false;
};

}  // namespace sluice::paths
