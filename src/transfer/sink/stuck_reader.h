// SPDX-License-Identifier: Apache-2.0
// What the sentinel finds when it looks at a read whose kernels wait for chunks.
#pragma once

#include <atomic>
#include <cstdint>

#include "transfer/board.h"

namespace sluice::transfer {

// Of one row. Looks are the sentinel's, some milliseconds apart.
class StuckReader {
 public:
  // The reader of the chunk that kernels wait for was at it when this was asked last, and still is.
  template <typename Layout>
  bool is_there(Board<Layout>& board, bool kernels_wait) noexcept {
    const std::uint32_t chunk = board.layout().row(0).released.load(std::memory_order_acquire);
    const bool is_being_read = kernels_wait && chunk < board.chunks() && board.is_being_read(chunk);
    const bool is_stuck = is_being_read && seen_reading_ == chunk;
    seen_reading_ = is_being_read ? chunk : board.chunks();
    return is_stuck;
  }

 private:
  std::uint32_t seen_reading_ = ~std::uint32_t{0};
};

}  // namespace sluice::transfer
