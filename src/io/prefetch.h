// SPDX-License-Identifier: Apache-2.0
// Bytes of a file brought into the cache of this thread's processor, in moments in which the thread has nothing else to
// do: what a read of the page cache, or a write into it, costs is for the most part waiting for memory. Nothing but
// time depends on it: the bytes are thrown away, and are read again when it is their turn.
//
// No disk is waited for. What comes next of a file that is read is asked for with RWF_NOWAIT: where the page cache does
// not have it, the kernel begins to fetch it, as it would a moment later. The place of a write must not be fetched,
// since the write would have to wait for it: it is left unless all of it is cached, which cachestat() tells
// (Linux 6.5). The same holds of files in memory, which may have been swapped out. What cannot be read is left, too:
// the end of the file, and all of a descriptor that may not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/strong.h"

namespace sluice::io {

// A file whose bytes are in the page cache, if they are in memory at all.
struct PrefetchRange {
  int fd = -1;             // -1: there is nothing to be prefetched
  bool in_memory = false;  // the file system has no other place for it, and does not know RWF_NOWAIT
};

class Prefetch {
 public:
  // How much is looked at between two looks at what the thread waits for: half a microsecond, two microseconds.
  enum class Step : std::uint32_t { of_a_page = 4 << 10, of_four_pages = 16 << 10 };

  Prefetch() = default;  // of nothing
  // Of what is likely to be read next.
  static Prefetch of_next_range(PrefetchRange file, base::FileOffset at, std::uint64_t length) noexcept {
    return {file, at, length, Step::of_a_page, false};
  }
  // Of the place that a write goes to.
  static Prefetch of_write_range(PrefetchRange file, base::FileOffset at, std::uint64_t length, Step step) noexcept {
    return {file, at, length, step, true};
  }

  bool is_over() const noexcept { return at_ >= end_; }
  // False: nothing is left that could be prefetched.
  bool step() noexcept;

 private:
  Prefetch(PrefetchRange file, base::FileOffset at, std::uint64_t length, Step step, bool if_cached) noexcept
      : file_(file), step_(step), ask_(if_cached || file.in_memory), at_(at.value), end_(at.value + length) {}

  PrefetchRange file_;
  Step step_ = Step::of_a_page;
  bool ask_ = false;  // whether all is cached, before anything is read
  std::uint64_t at_ = 0;
  std::uint64_t end_ = 0;
};

// Does this thread go through a file piece by piece, each where the one before has ended? Asked once a transfer, of the
// one that is about to begin: true from the second in a row on. Reads and writes are looked at apart.
bool goes_on(base::Direction direction, int fd, base::FileOffset at, std::uint64_t length) noexcept;

// Is all of it in the page cache? No where the system does not say; nothing is read. It takes some tenths of a
// microsecond where folios are large, and up to a dozen microseconds for a megabyte of single pages.
bool is_cached(int fd, base::FileOffset at, std::uint64_t length) noexcept;

}  // namespace sluice::io
