// One piece is on its way from the device while another is being written. Writing is left to one thread: a file system
// lets one writer at a time into a file that it buffers.
//
// Of a writer that is alone the first piece is small, so that writing begins soon; all others are large, since each
// costs two calls of the driver, made by the thread that writes, and a call of the file system's, whose price does not
// depend on the size alone: ext4 goes through all blocks of a folio with each write into it, and folios of up to 8 MiB
// are usual.
#include "engine/device_write.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "engine/file_io.h"
#include "engine/headcount.h"
#include "gpu/memory.h"
#include "observe/carriers.h"

namespace sluice::engine {

using base::FileOffset;
using base::Outcome;

namespace {

struct Pieces {
  std::uint64_t first;
  std::uint64_t whole;
};
constexpr Pieces buffered_pieces{128 << 10, 2 << 20};
constexpr Pieces direct_pieces{1 << 20, 1 << 20};
// Beside other writers, whom the file system keeps waiting for each other: each call more is one turn more to wait for.
constexpr Pieces pieces_in_crowd{1 << 20, 2 << 20};
static_assert(ring_bytes % buffered_pieces.whole == 0 && ring_bytes >= 2 * buffered_pieces.whole);
static_assert(ring_bytes % direct_pieces.whole == 0 && ring_bytes >= 2 * direct_pieces.whole);
static_assert(pieces_in_crowd.whole == buffered_pieces.whole && pieces_in_crowd.first < pieces_in_crowd.whole);

class DeviceWrite {
 public:
  DeviceWrite(const FileRange& range, RingLoan& ring, cuda::DevicePtr from) noexcept
      : range_(range),
        ring_(ring),
        from_(from),
        pieces_(range.block > 1       ? direct_pieces
                : writer_.count() > 1 ? pieces_in_crowd
                                      : buffered_pieces) {}

  Outcome run() noexcept {
    std::atomic_ref(ring_.words().copied).store(0, std::memory_order_relaxed);
    std::uint64_t done = 0;
    Outcome refusal = Outcome::bytes(0);
    for (std::uint32_t piece = 0; beginning(piece) < range_.length && failure_ == cuda::success; ++piece) {
      fetch_up_to(piece + 2);
      wait_for(piece);
      if (failure_ != cuda::success) break;
      const FileOffset at{range_.at.value + beginning(piece)};
      Outcome written = write_span(range_.fd, place(piece), at, range_.block);
      if (written.error() == EINVAL) written = range_.buffered.write(place(piece), at);
      if (!written.ok()) refusal = written;
      done += written.count();
      if (written.count() < length(piece)) break;
    }
    // After a refusal a copy may still be on its way into the ring.
    if (issued_ > 0 && copied() < issued_) ring_.device().finish_copies();
    observe::count_carrier(observe::CarriedBy::copy_engine);
    if (done > 0) return Outcome::bytes(done);
    return failure_ != cuda::success ? gpu::as_outcome(failure_) : refusal;
  }

 private:
  // From the start of the range. The first two pieces make a whole one together, unless the first is one: none lies
  // across the ring's end, and neighbours lie apart.
  std::uint64_t beginning(std::uint32_t piece) const noexcept {
    if (piece < 2) return piece * pieces_.first;
    return (piece - (pieces_.first < pieces_.whole ? 1 : 0)) * pieces_.whole;
  }
  std::uint64_t length(std::uint32_t piece) const noexcept {
    return std::min(beginning(piece + 1), range_.length) - beginning(piece);
  }
  std::span<std::byte> place(std::uint32_t piece) const noexcept {
    return ring_.bytes().subspan(beginning(piece) % ring_bytes, length(piece));
  }
  std::uint32_t copied() const noexcept {
    return std::atomic_ref(ring_.words().copied).load(std::memory_order_acquire);
  }

  void fetch_up_to(std::uint32_t end) noexcept {
    while (issued_ < end && beginning(issued_) < range_.length && failure_ == cuda::success) {
      gpu::Staging& device = ring_.device();
      int result = device.copy_from_device(place(issued_), from_ + beginning(issued_));
      if (result == cuda::success) result = device.mark(&ring_.words().copied, ++issued_);
      if (result != cuda::success) give_up(result);
    }
  }

  void wait_for(std::uint32_t piece) noexcept {
    if (failure_ != cuda::success) return;
    if (const int result = ring_.await_copied(piece + 1); result != cuda::success) give_up(result);
  }

  void give_up(int result) noexcept {
    failure_ = result;
    ring_.give_up();
  }

  const Headcount::Member writer_{headcounts::staged_writes};
  const FileRange& range_;
  RingLoan& ring_;
  const cuda::DevicePtr from_;
  const Pieces pieces_;
  std::uint32_t issued_ = 0;
  int failure_ = cuda::success;
};

}  // namespace

Outcome write_from_device(const FileRange& range, RingLoan& ring, cuda::DevicePtr from) noexcept {
  return DeviceWrite(range, ring, from).run();
}

}  // namespace sluice::engine
