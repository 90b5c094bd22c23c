// SPDX-License-Identifier: Apache-2.0
// Moving a whole span between a descriptor and host memory: every interruption and short transfer is dealt with here,
// so that no caller ever sees one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"

namespace sluice::io {

// Reads until the span is full, the file ends, or the system refuses. Answers the bytes that arrived; a refusal only
// when none did. `block` is what O_DIRECT wants of offsets and lengths, 1 for a buffered descriptor; then offset and
// length are multiples of it, and after a transfer that stopped inside a block the block is read again from its start.
// `limit` is a hint where the file ends, from which on a short answer is believed; ~0 when unknown.
base::Outcome read_span(int fd, std::span<std::byte> into, base::FileOffset at, std::uint32_t block,
                        std::uint64_t limit = ~std::uint64_t{0}) noexcept;

// The same of a buffered descriptor, when all that the file has of the span is in the page cache; EAGAIN when it is
// not, or not certainly. File systems that do not tell are read as they are.
base::Outcome read_span_if_cached(int fd, std::span<std::byte> into, base::FileOffset at, std::uint64_t limit) noexcept;

// Writes until all is written or the system refuses; the same in the other direction. A device that takes nothing
// more (0 without an error) is reported as ENOSPC.
base::Outcome write_span(int fd, std::span<const std::byte> from, base::FileOffset at, std::uint32_t block) noexcept;

// Spans that lie one behind the other in the file, with one call: what a call costs beside its bytes is paid once.
// Answers how many bytes the system has taken, be it none: the rest is to be written span by span. An error is told
// where the first span has met it: systems tell some of them once. At most most_spans.
inline constexpr std::size_t most_spans = 64;
base::Outcome write_together(int fd, std::span<const std::span<const std::byte>> from, base::FileOffset at) noexcept;

// The rest of such spans behind what has been taken, one by one as `write` does it, until one comes short. Answers all
// that is written.
template <typename Write>
base::Outcome write_rest(std::span<const std::span<const std::byte>> from, base::FileOffset at, std::uint32_t block,
                         std::uint64_t taken, const Write& write) noexcept {
  std::uint64_t begin = 0;  // of the span
  for (const std::span<const std::byte> span : from) {
    const std::uint64_t end = begin + span.size();
    if (taken < end) {
      const std::uint64_t inside = std::max(taken, begin) - begin;
      const std::uint64_t skip = inside - inside % block;
      const base::Outcome rest = write(span.subspan(skip), base::FileOffset{at.value + begin + skip});
      if (!rest.ok()) return taken > 0 ? base::Outcome::bytes(taken) : rest;
      taken = std::max(taken, begin + skip + rest.count());
      if (taken < end) break;
    }
    begin = end;
  }
  return base::Outcome::bytes(taken);
}

}  // namespace sluice::io
