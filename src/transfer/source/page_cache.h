// SPDX-License-Identifier: Apache-2.0
// Sources of chunks that each thread waits for by itself. A source of this kind has
//   read(chunk, number, place)  puts the chunk into its place, from chunk.lead on: bytes, or -errno; any thread
//   leaves(outcome)             whether others are to do what this answer ends
//   may_wait                    whether a reader may be stuck in its storage while a kernel waits
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "io/file_io.h"
#include "io/uring.h"
#include "transfer/layout.h"

namespace sluice::transfer {

// Any descriptor, with or without O_DIRECT.
class WholeFile {
 public:
  static constexpr bool may_wait = true;
  static constexpr bool is_asynchronous = false;
  explicit WholeFile(const FileRange& range) noexcept : range_(range) {}

  std::int64_t read(const Chunk& chunk, std::uint32_t number, std::byte* place) const noexcept {
    // Whole blocks, where O_DIRECT wants them; from the start of the range, where it does not.
    const std::uint32_t ahead = chunk.block > 1 ? 0 : chunk.lead;
    const std::uint32_t before = chunk.lead - ahead;
    const std::uint64_t whole = (std::uint64_t{before} + chunk.length + chunk.block - 1) / chunk.block * chunk.block;
    const base::FileOffset at{chunk.at.value - before};
    const std::span<std::byte> into{place + ahead, whole};
    base::Outcome got = io::read_span(chunk.fd, into, at, chunk.block, chunk.file_size);
    if (got.error() == EINVAL) got = range_.buffered.read(into, at);
    // Nothing has been released yet. A kernel was launched just now, and takes as long to begin.
    if (number == 0 && !range_.now.finds_the_file()) return -EBADF;
    if (!got.ok()) return got.value();
    return static_cast<std::int64_t>(
        std::min<std::uint64_t>(got.count() - std::min<std::uint64_t>(got.count(), before), chunk.length));
  }
  static constexpr bool leaves(std::int64_t /*outcome*/) noexcept { return false; }
  // Of what a ring has refused, or has not tried.
  static constexpr bool takes(const Chunk& /*chunk*/, int error, std::uint64_t /*came*/) noexcept {
    return error == EINVAL || error == EOPNOTSUPP || io::was_not_tried(error);
  }

 private:
  const FileRange& range_;
};

// What the page cache has, as far as file systems tell; nothing is waited for.
class CachedFiles {
 public:
  static constexpr bool may_wait = false;
  static constexpr bool is_asynchronous = false;

  static std::int64_t read(const Chunk& chunk, std::uint32_t /*number*/, std::byte* place) noexcept {
    return io::read_span_if_cached(chunk.fd, {place + chunk.lead, chunk.length}, chunk.at, chunk.file_size).value();
  }
  // EINVAL: the descriptor has got O_DIRECT since it was registered, which the caller deals with.
  static constexpr bool leaves(std::int64_t outcome) noexcept { return outcome == -EAGAIN || outcome == -EINVAL; }
};

}  // namespace sluice::transfer
