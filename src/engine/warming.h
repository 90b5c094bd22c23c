// Bytes of a file brought into the cache of this thread's processor, in moments in which the thread has nothing else to
// do: what a read of the page cache, or a write into it, costs is for the most part waiting for memory. Nothing but
// time depends on it: the bytes are thrown away, and whoever wants them reads them when it is their turn.
//
// It reads with RWF_NOWAIT, so no disk is ever asked, or plainly where a file lives in memory. What cannot be warmed so
// (a descriptor that may not read, a file system that does not tell what it has cached, the end of the file) is left.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/strong.h"

namespace sluice::engine {

// A file whose bytes are in the page cache, if they are at hand at all.
struct Warmable {
  int fd = -1;             // -1: there is nothing to be warmed
  bool in_memory = false;  // the file system has no other place for it
};

class Warming {
 public:
  Warming() = default;  // of nothing
  // Nothing lasts longer than a step: 4 KiB take half a microsecond, 16 KiB some two.
  static constexpr std::size_t short_step = 4 << 10;
  static constexpr std::size_t long_step = 16 << 10;
  Warming(Warmable file, base::FileOffset at, std::uint64_t length, std::size_t step = short_step) noexcept
      : file_(file), step_(step), at_(at.value), end_(at.value + length) {}

  bool is_over() const noexcept { return at_ >= end_; }
  // False: nothing is left that could be warmed.
  bool step() noexcept;

 private:
  Warmable file_;
  std::size_t step_ = short_step;
  std::uint64_t at_ = 0;
  std::uint64_t end_ = 0;
};

// Does this thread go through a file piece by piece, each where the one before has ended? Asked once a transfer, of the
// one that is about to begin: true from the second in a row on. Reads and writes are looked at apart.
bool goes_on(base::Direction direction, int fd, base::FileOffset at, std::uint64_t length) noexcept;

// May a range of the file be warmed, as far as its ends tell?
bool is_warmable(Warmable file, base::FileOffset at, std::uint64_t length) noexcept;

}  // namespace sluice::engine
