// Moving a whole span between a descriptor and host memory: every interruption and short transfer is dealt with here,
// so that nobody above ever sees one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"

namespace sluice::engine {

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

}  // namespace sluice::engine
