// SPDX-License-Identifier: Apache-2.0
// A span between a file and memory on its way by io_uring: asked for again until all of it is there, the file ends, or
// the system refuses.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/spin_backoff.h"
#include "base/strong.h"
#include "io/uring.h"

namespace sluice::io {

struct RingSpan {
  base::Direction direction = base::Direction::read;
  int fd = -1;
  std::byte* memory = nullptr;
  std::uint64_t length = 0;
  base::FileOffset at = {};
  std::uint32_t block = 1;                      // what O_DIRECT wants of offsets and lengths; 1 without it
  std::uint64_t file_size = ~std::uint64_t{0};  // a hint
  std::uint64_t done = 0;                       // from the span's start on
  std::uint64_t from = 0;                       // where the present request starts, at most `done`
  int refusals = 0;                             // in a row

  // From the start of the block that the last answer stopped in: O_DIRECT knows whole blocks only.
  void submit(Uring& ring, std::uint64_t tag) noexcept {
    from = done - done % block;
    ring.add({.direction = direction,
              .fd = fd,
              .address = memory + from,
              .length = static_cast<std::uint32_t>(length - from),
              .at = base::FileOffset{at.value + from},
              .tag = tag});
  }

  // Nothing: the rest has been asked for. Else the end of it: 0 when all is there or the file ends, or why no more
  // came. `again`: of those errors that pass, beside EINTR and EAGAIN.
  template <typename Again>
  std::optional<int> settle(Uring& ring, const UringCompletion& answer, Again again) noexcept {
    if (answer.result < 0) {
      const int error = -answer.result;
      const bool passes = error == EAGAIN || again(error);
      if (error != EINTR && !(passes && ++refusals < base::most_refusals_in_a_row)) return error;
    } else {
      refusals = 0;
      const std::uint64_t reached = from + static_cast<std::uint64_t>(answer.result);
      if (reached <= done) return direction == base::Direction::write ? ENOSPC : 0;
      done = std::min(reached, length);
      if (done == length || at.value + done >= file_size) return 0;
    }
    submit(ring, answer.tag);
    return std::nullopt;
  }
  std::optional<int> settle(Uring& ring, const UringCompletion& answer) noexcept {
    return settle(ring, answer, [](int /*error*/) { return false; });
  }
};

}  // namespace sluice::io
