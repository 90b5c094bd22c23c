// SPDX-License-Identifier: Apache-2.0
// What the chunks of a write are: where each comes from and goes to, and which are written one after the other.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "base/processor.h"
#include "base/strong.h"
#include "gpu/memory.h"
#include "io/prefetch.h"
#include "io/private_files.h"
#include "staging/staging_buffer.h"
#include "transfer/bond.h"
#include "transfer/file_range.h"
#include "transfer/plan.h"

namespace sluice::transfer {

struct WriteChunk {
  int fd;
  base::FileOffset at;
  cuda::DevicePtr from;
  std::uint32_t length;
  std::uint32_t block;         // what O_DIRECT wants of offsets and lengths; 1 for a buffered descriptor
  io::PrivateFile* buffered;   // the same file without O_DIRECT
  io::PrefetchRange prefetch;  // what may be prefetched of it
  std::uint64_t memory;        // that it comes from; the same for all chunks of one range
};

inline constexpr std::uint32_t no_chunk = ~std::uint32_t{0};

// Chunks that are written one after the other: of one buffered file, since a file system lets one writer at a time into
// it; else of one item.
struct alignas(base::line_bytes) WriteStream {
  enum class Holder : std::uint8_t { none, caller, helper };
  std::atomic<Holder> holder{Holder::none};
  std::atomic<std::uint32_t> next{0};  // chunk; written by the holder, or by the writer whose turn it is
};

// One range of a file. The first two chunks make a whole one together, unless the first is one: none lies across the
// buffer's end, and neighbours lie apart.
class OneWrite {
 public:
  OneWrite(const FileRange& range, cuda::DevicePtr from, const WritePlan& plan) noexcept
      : range_(range), from_(from), plan_(plan) {
    const std::uint64_t behind_first = range.length - std::min(range.length, plan.first);
    const std::uint64_t second = plan.first < plan.whole ? plan.whole - plan.first : plan.whole;
    const std::uint64_t behind_second = behind_first - std::min(behind_first, second);
    chunks_ = 1 + (behind_first > 0 ? 1 : 0) + chunks_in(behind_second, static_cast<std::uint32_t>(plan.whole));
  }

  std::uint32_t chunks() const noexcept { return chunks_; }
  WriteChunk operator[](std::uint32_t chunk) const noexcept {
    const std::uint64_t begin = begin_of(chunk);
    return {range_.fd,     base::FileOffset{range_.at.value + begin},
            from_ + begin, length(chunk),
            range_.block,  &range_.buffered,
            range_.place,  0};
  }
  std::uint32_t length(std::uint32_t chunk) const noexcept {
    return static_cast<std::uint32_t>(std::min(begin_of(chunk + 1), range_.length) - begin_of(chunk));
  }
  std::size_t place(std::uint32_t chunk) const noexcept { return begin_of(chunk) % staging::staging_bytes; }
  std::uint32_t behind(std::uint32_t chunk) const noexcept { return chunk + 1 < chunks_ ? chunk + 1 : no_chunk; }
  std::span<WriteStream> streams() noexcept { return {&stream_, 1}; }
  // Copies so far ahead are begun.
  bool is_free(std::uint32_t chunk) const noexcept {
    const std::uint32_t turn = stream_.next.load(std::memory_order_acquire);
    return turn == no_chunk || chunk < turn + plan_.ahead;
  }

  // Its place is not read any more.
  bool has_left(std::uint32_t chunk) const noexcept { return chunk < stream_.next.load(std::memory_order_acquire); }

  bool may_write(std::uint32_t /*chunk*/) const noexcept { return true; }
  // By the thread whose turn it is. False: nothing is to be written any more.
  bool has_written(std::uint32_t chunk, std::uint64_t count, int error) noexcept {
    done_ += count;
    if (error != 0) error_ = error;
    const bool whole = count == length(chunk);
    if (!whole || behind(chunk) == no_chunk) over_.store(true, std::memory_order_release);
    return whole;
  }
  bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }
  base::Outcome answer(cuda::Result failure) const noexcept {
    if (done_ > 0) return base::Outcome::bytes(done_);
    if (failure != cuda::success) return gpu::as_outcome(failure);
    return error_ != 0 ? base::Outcome::system_error(error_) : base::Outcome::bytes(0);
  }

 private:
  std::uint64_t begin_of(std::uint32_t chunk) const noexcept {
    if (chunk < 2) return chunk * plan_.first;
    return (chunk - (plan_.first < plan_.whole ? 1 : 0)) * plan_.whole;
  }

  const FileRange& range_;
  const cuda::DevicePtr from_;
  const WritePlan plan_;
  std::uint32_t chunks_ = 0;
  // Of the thread that has the turn, passed on with it.
  std::uint64_t done_ = 0;
  int error_ = 0;
  WriteStream stream_;
  std::atomic<bool> over_{false};
};

}  // namespace sluice::transfer
