// SPDX-License-Identifier: Apache-2.0
// Stretches of O_DIRECT files into or out of memory that the kernel pins, of which many are on their way at a time, by
// one thread and one ring. Each is cut into chunks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"
#include "io/ring_span.h"
#include "io/uring.h"

namespace sluice::io {

// Where file and memory are, and what O_DIRECT wants of offsets and lengths.
struct IoRange {
  int fd = -1;
  base::FileOffset at;
  std::span<std::byte> memory;  // written to by a read, read from by a write
  std::uint32_t block = 4096;
};

// For one thread, which holds the ring meanwhile. One that is dropped before it is empty leaves requests in flight.
class DirectQueue {
 public:
  static constexpr std::size_t most_under_way = 16;  // ranges, and chunks
  static_assert(most_under_way <= Uring::depth);

  explicit DirectQueue(Uring& ring) noexcept : ring_(ring) {}
  DirectQueue(const DirectQueue&) = delete;
  DirectQueue& operator=(const DirectQueue&) = delete;

  // All that was added has ended.
  bool is_empty() const noexcept { return underway_ == 0; }
  // Another range would begin at once. No more after the ring was lost.
  bool has_room() const noexcept { return !lost_ && cut_ == none && busy_ < most_under_way; }
  // The kernel took nothing more; nothing is on its way.
  bool lost() const noexcept { return lost_; }

  // With room for it. Not empty; offset and length are whole blocks.
  void add(const IoRange& range, base::Direction direction, std::uint32_t tag) noexcept;

  // How much of a range, from its start on, is in place: short at the end of the file, or where the system refuses in
  // mid-way; an error says that nothing was moved.
  struct Ended {
    std::uint32_t tag = 0;
    base::Outcome outcome = base::Outcome::bytes(0);
  };
  // Submits, waits until something has happened, and answers how many ranges have ended, which may be none. With a
  // queue that is not empty.
  unsigned step(std::span<Ended, most_under_way> ended) noexcept;

 private:
  // A range that is under way. It has a chunk on its way, or is the one that is being cut.
  struct Transfer {
    IoRange range;
    base::Direction direction = base::Direction::read;
    std::uint32_t tag = 0;
    std::uint64_t next = 0;  // where the next chunk begins
    std::uint64_t stop = 0;  // the first place that is not in place, and why; 0: the end of the file
    int error = 0;
    unsigned busy = 0;
    bool taken = false;
  };
  struct Chunk {
    std::size_t transfer = 0;
    std::uint64_t begin = 0;
    RingSpan span;
    bool busy = false;
  };
  static constexpr std::size_t none = most_under_way;

  void cut_more() noexcept;
  void settle(const UringCompletion& answer) noexcept;
  void finish(Chunk& chunk, int error) noexcept;
  void lose(int error) noexcept;
  unsigned collect(std::span<Ended, most_under_way> ended) noexcept;

  Uring& ring_;
  std::array<Transfer, most_under_way> transfers_{};
  std::array<Chunk, most_under_way> chunks_{};
  std::size_t cut_ = none;  // the transfer that is being cut
  unsigned underway_ = 0;   // transfers
  unsigned busy_ = 0;       // chunks
  bool lost_ = false;
};

}  // namespace sluice::io
