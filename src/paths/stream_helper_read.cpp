// SPDX-License-Identifier: Apache-2.0
// Chunk n goes into the place that is n ahead of the first. Chunks are read in any order and sent in file order, so
// nothing behind the end of the file, or behind an error, ever reaches the device.
//
//   next_   the first chunk that nobody has claimed
//   open_   chunks before it have a place that is free
//
// The calling thread alone speaks to the copier: it opens places, sends, and reads like everybody else.
#include "paths/stream_helper_read.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "base/spin_backoff.h"
#include "workers/work_queue.h"

namespace sluice::paths {

using base::FileOffset;
using base::Outcome;

namespace {

struct Share {
  std::uint64_t up_to;
  std::uint32_t chunk_bytes;
  unsigned helpers;
};
constexpr std::array shares{Share{512 << 10, 16 << 10, 5}, Share{2 << 20, gpu::stream_copy_bytes, 7},
                            Share{~0ULL, gpu::stream_copy_bytes, 11}};

const Share& share_for(std::uint64_t length) noexcept {
  return *std::find_if(shares.begin(), shares.end(), [&](const Share& share) { return length <= share.up_to; });
}

class HelperRead final : public workers::Job {
 public:
  HelperRead(stream::StreamCopier& copier, const Piece& piece, FileSide& file, const Share& share) noexcept
      : copier_(copier),
        piece_(piece),
        file_(file),
        chunk_bytes_(share.chunk_bytes),
        chunks_(static_cast<std::uint32_t>((piece.length + share.chunk_bytes - 1) / share.chunk_bytes)),
        helpers_(stream::helpers_for_a_stream(std::min(share.helpers, chunks_ - 1))) {
    for (std::uint32_t ahead = 0; ahead < gpu::stream_copy_slots; ++ahead) {
      places_[ahead] = copier.slot_ahead(ahead).data();
    }
  }

  Outcome run() noexcept {
    open_places();
    const workers::JobScope scope(*this, helpers_);
    base::SpinBackoff backoff;
    while (sent_ < chunks_ && !ended_) {
      open_places();
      if (send_what_is_ready() || read_one()) {
        backoff = {};
      } else if (!copier_.wait_a_moment(backoff)) {
        failed_ = true;
        break;
      }
    }
    over_.store(true, std::memory_order_release);
    if (failed_) return copier_.failed();
    return total_ == 0 && refusal_.error() != 0 ? refusal_ : Outcome::bytes(total_);
  }

  void run_helper(unsigned /*number*/) noexcept override {
    base::SpinBackoff backoff;
    while (!over_.load(std::memory_order_acquire) && next_.load(std::memory_order_relaxed) < chunks_) {
      if (read_one()) {
        backoff = {};
      } else {
        backoff.wait();
      }
    }
  }

 private:
  struct Slot {
    std::atomic<std::uint32_t> ready{0};  // one more than the chunk that lies here
    Outcome outcome = Outcome::bytes(0);
  };

  std::uint64_t begin_of(std::uint32_t chunk) const noexcept { return std::uint64_t{chunk} * chunk_bytes_; }
  std::uint64_t length_of(std::uint32_t chunk) const noexcept {
    return std::min<std::uint64_t>(chunk_bytes_, piece_.length - begin_of(chunk));
  }
  std::uint64_t skip_of(std::uint32_t chunk) const noexcept {
    return (piece_.at.value + begin_of(chunk)) % file_.block();
  }
  std::uint64_t shift_of(std::uint32_t chunk) const noexcept {
    return file_.block() == 1 ? (piece_.address + begin_of(chunk)) % 16 : 0;
  }

  // Release: the claimer of a chunk finds its slot left by the device.
  void open_places() noexcept {
    std::uint32_t open = open_.load(std::memory_order_relaxed);
    while (open < chunks_ && copier_.is_free_ahead(open - sent_)) ++open;
    open_.store(open, std::memory_order_release);
  }

  // Claims a chunk whose place is free, and reads it. False: there is none.
  bool read_one() noexcept {
    std::uint32_t chunk = next_.load(std::memory_order_relaxed);
    do {
      if (chunk >= open_.load(std::memory_order_acquire)) return false;
    } while (!next_.compare_exchange_weak(chunk, chunk + 1, std::memory_order_relaxed));
    Slot& slot = slots_[chunk % gpu::stream_copy_slots];
    const std::uint64_t skip = skip_of(chunk);
    const std::uint64_t block = file_.block();
    const std::uint64_t staged = (skip + length_of(chunk) + block - 1) / block * block;
    const std::span<std::byte> place{places_[chunk % gpu::stream_copy_slots] + shift_of(chunk), staged};
    slot.outcome = shift_of(chunk) + staged > gpu::stream_copy_slot_bytes
                       ? Outcome::system_error(EINVAL)
                       : file_.read(place, FileOffset{piece_.at.value + begin_of(chunk) - skip});
    slot.ready.store(chunk + 1, std::memory_order_release);
    return true;
  }

  bool send_what_is_ready() noexcept {
    bool any = false;
    while (sent_ < chunks_ && !ended_) {
      const Slot& slot = slots_[sent_ % gpu::stream_copy_slots];
      if (slot.ready.load(std::memory_order_acquire) != sent_ + 1) break;
      const std::uint64_t skip = skip_of(sent_);
      const std::uint64_t count = slot.outcome.count();
      const std::uint64_t arrived = std::min(count - std::min(count, skip), length_of(sent_));
      if (!slot.outcome.ok()) refusal_ = slot.outcome;
      ended_ = arrived < length_of(sent_);
      if (arrived > 0) {
        copier_.send(static_cast<std::uint32_t>(shift_of(sent_) + skip), static_cast<std::uint32_t>(arrived),
                     piece_.address + begin_of(sent_));
      }
      total_ += arrived;
      ++sent_;
      any = true;
    }
    return any;
  }

  stream::StreamCopier& copier_;
  const Piece& piece_;
  FileSide& file_;
  const std::uint32_t chunk_bytes_;
  const std::uint32_t chunks_;
  const unsigned helpers_;
  std::array<std::byte*, gpu::stream_copy_slots> places_{};
  std::array<Slot, gpu::stream_copy_slots> slots_;

  // The calling thread's own.
  std::uint32_t sent_ = 0;
  bool ended_ = false;
  bool failed_ = false;
  std::uint64_t total_ = 0;
  Outcome refusal_ = Outcome::bytes(0);

  alignas(64) std::atomic<std::uint32_t> next_{0};
  alignas(64) std::atomic<std::uint32_t> open_{0};
  std::atomic<bool> over_{false};
};

}  // namespace

Outcome read_by_helpers(stream::StreamCopier& copier, const Piece& piece, FileSide& file) noexcept {
  return HelperRead(copier, piece, file, share_for(piece.length)).run();
}

}  // namespace sluice::paths
