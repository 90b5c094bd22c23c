// SPDX-License-Identifier: Apache-2.0
// A write from device memory: a source (source/device.h, source/peer_gpu.h) brings chunks into places of staging
// buffers, and tells how many are there, in the order of their numbers; writers take them from there into their files.
// Each stream is written by one thread at a time, in the order of its chunks: what lies behind an error is not written.
//
// Where one stream is written in turns, each writer claims what lies together in the file, and prefetches the place
// that it goes to until the stream has come there. A file system lets one writer at a time into a file that it buffers,
// and what the writer does there is for the most part waiting for memory: with its place prefetched, it is through in
// half the time or less. No writer prefetches anything while it could write, but beside writers of other requests:
// those wait for the file, too, and what is prefetched outside keeps no writer waiting inside.
//
// The thread that calls run() gives the copy engine its work, writes like the others, and tells what is through.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/processor.h"
#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "io/file_io.h"
#include "io/prefetch.h"
#include "staging/staging_buffer.h"
#include "transfer/source/device.h"
#include "transfer/write_layout.h"
#include "workers/active_count.h"
#include "workers/slow_disk_gauge.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

// How a write goes on.
struct WritePace {
  bool in_turns;
  unsigned helpers;
  // Of one call to the driver, at first and then: writing begins when all of it has come. One chunk at least.
  std::uint64_t first_copy = 0;
  std::uint64_t copy = 0;
  // What a writer writes in its turn, at first and then. One chunk at least.
  std::uint64_t first_turn = 0;
  std::uint64_t turn = 0;
  const workers::ActiveCount* writers = nullptr;  // of the file, beside whom a place is prefetched to its end
  const workers::SlowDiskGauge::Scope* past_cache = nullptr;  // where it goes there
  io::Prefetch next_range = {};                               // what the caller is likely to write next
};

template <typename Layout, typename Source = DeviceSource>
class WritePipeline final : public workers::Job {
  using Holder = WriteStream::Holder;

 public:
  explicit WritePipeline(Layout& layout) noexcept : layout_(layout) {}
  Source& source() noexcept { return source_; }

  // With the buffer's context current. success, or what the device has failed of.
  template <typename Tell>
  cuda::Result run(const WritePace& pace, staging::StagingLease& lease, const Tell& tell) noexcept {
    pace_ = &pace;
    source_.begin(lease);
    issued_ = 0;
    failure_ = cuda::success;
    lost_.store(false, std::memory_order_relaxed);
    claimed_.store(layout_.streams()[0].next.load(std::memory_order_relaxed), std::memory_order_relaxed);
    io::Prefetch next_range = pace.next_range;
    Claim claim;
    // The first chunks are the caller's, which may have prefetched their place already.
    if (pace.in_turns) {
      copy_more();
      make(claim);
    }
    {
      std::optional<workers::JobScope> scope;
      if (pace.helpers > 0) scope.emplace(*this, pace.helpers);
      base::SpinBackoff backoff;
      while (!layout_.is_over() && failure_ == cuda::success) {
        const bool copied = copy_more();
        const bool did_something = pace.in_turns ? take_turn(claim) : write_some(Holder::caller);
        tell();
        if (copied || did_something || (claim.first == no_chunk && next_range.step())) {
          backoff = {};
        } else {
          look_after_device(backoff);
        }
      }
    }
    tell();  // what helpers have ended since
    source_.finish();
    return failure_;
  }

  // A helper stays while there is something to claim, or a stream that no other helper has.
  void run_helper(unsigned /*number*/) noexcept override {
    Claim claim;
    base::SpinBackoff backoff;
    while (!is_lost()) {
      if (pace_->in_turns ? take_turn(claim) : write_some(Holder::helper)) {
        backoff = {};
      } else if (pace_->in_turns ? claim.first != no_chunk : some_may_want_a_helper()) {
        backoff.wait();
      } else {
        return;
      }
    }
  }

 private:
  // What a writer has claimed, until the stream has come there. Then no thread holds the stream.
  struct Claim {
    std::uint32_t first = no_chunk;
    std::uint32_t end = no_chunk;
    io::Prefetch prefetch;
  };
  // Chunks that lie together in the file, and go into it with one call.
  struct ChunkRun {
    std::uint32_t end;  // the chunk behind them
    std::uint64_t length;
  };
  // Of one call to the file system. The caller's are short: it gives the device its work.
  static constexpr std::uint64_t most_at_once = 512 << 10;
  static constexpr std::uint64_t most_at_once_by_the_caller = 256 << 10;

  bool is_lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  bool is_ready(std::uint32_t chunk) const noexcept { return chunk != no_chunk && source_.ready() > chunk; }
  std::span<std::byte> bytes_of(std::uint32_t chunk) const noexcept { return source_.bytes(layout_, chunk); }

  // Is the chunk of a buffered file, behind `length` bytes of it that begin with `first`?
  bool goes_with(const WriteChunk& first, std::uint64_t length, std::uint32_t chunk) const noexcept {
    if (chunk == no_chunk) return false;
    const WriteChunk next = layout_[chunk];
    return next.block == 1 && next.fd == first.fd && next.at.value == first.at.value + length;
  }
  // At most so many bytes that go together, from a chunk on, of those that `may_go`.
  template <typename MayGo>
  ChunkRun run_at(std::uint32_t first, std::uint64_t most, const MayGo& may_go) const noexcept {
    const WriteChunk begin = layout_[first];
    ChunkRun run{first, 0};
    std::size_t count = 0;
    do {
      run.length += layout_[run.end].length;
      run.end = layout_.behind(run.end);
    } while (++count < io::most_spans && goes_with(begin, run.length, run.end) && may_go(run.end) &&
             run.length + layout_[run.end].length <= most);
    return run;
  }

  // False: nothing is left.
  bool make(Claim& claim) noexcept {
    ChunkRun run{};
    std::uint32_t first = claimed_.load(std::memory_order_relaxed);
    do {
      if (first == no_chunk) return false;
      run = run_at(first, first == 0 ? pace_->first_turn : pace_->turn, [](std::uint32_t /*chunk*/) { return true; });
    } while (!claimed_.compare_exchange_weak(first, run.end, std::memory_order_relaxed));
    const WriteChunk begin = layout_[first];
    claim = {first, run.end,
             io::Prefetch::of_write_range(begin.prefetch, begin.at, run.length, io::Prefetch::Step::of_four_pages)};
    return true;
  }

  // Has all of it come? Copies come in the order of the chunks.
  bool is_ready(const Claim& claim) const noexcept {
    std::uint32_t last = claim.first;
    for (std::uint32_t chunk = last; chunk != claim.end; chunk = layout_.behind(chunk)) last = chunk;
    return is_ready(last);
  }

  // Writes what this writer has claimed when the stream has come there, claims the next when it has none, and
  // prefetches otherwise. False: it could do nothing just now.
  bool take_turn(Claim& claim) noexcept {
    if (claim.first == no_chunk && !make(claim)) return false;
    std::atomic<std::uint32_t>& next = layout_.streams()[0].next;
    // Acquire: the stream as the writer before has left it.
    if (next.load(std::memory_order_acquire) != claim.first || !is_ready(claim)) return claim.prefetch.step();
    if (pace_->writers != nullptr) {
      while (pace_->writers->now() > 1 && claim.prefetch.step()) {
      }
    }
    write(claim.first, claim.end);
    // No writer's turn comes behind a chunk that ends it all.
    if (!is_lost()) next.store(claim.end, std::memory_order_release);
    claim.first = no_chunk;
    return true;
  }

  // One stream's turn: all that is ready of it, or one run: no other thread gives the device its work meanwhile.
  bool write_some(Holder as) noexcept {
    const std::uint64_t most = as == Holder::caller ? most_at_once_by_the_caller : most_at_once;
    for (WriteStream& stream : layout_.streams()) {
      if (!is_ready(stream.next.load(std::memory_order_relaxed))) continue;
      Holder none = Holder::none;
      // Acquire: the stream as its last holder left it.
      if (!stream.holder.compare_exchange_strong(none, as, std::memory_order_acquire)) continue;
      bool wrote = false;
      for (std::uint32_t chunk = stream.next.load(std::memory_order_relaxed); is_ready(chunk);
           chunk = stream.next.load(std::memory_order_relaxed)) {
        const ChunkRun run = run_at(chunk, most, [this](std::uint32_t next) { return is_ready(next); });
        write(chunk, run.end);
        // Release: the caller takes it for leave to have the device copy into the places that were written from.
        stream.next.store(run.end, std::memory_order_release);
        wrote = true;
        if (as == Holder::caller || is_lost()) break;
      }
      stream.holder.store(Holder::none, std::memory_order_release);
      if (wrote) return true;
    }
    return false;
  }

  bool some_may_want_a_helper() noexcept {
    const std::span<WriteStream> streams = layout_.streams();
    return std::any_of(streams.begin(), streams.end(), [](const WriteStream& stream) {
      return stream.next.load(std::memory_order_relaxed) != no_chunk &&
             stream.holder.load(std::memory_order_relaxed) != Holder::helper;
    });
  }

  // A run of chunks: together where there are several, and what that leaves one by one.
  void write(std::uint32_t first, std::uint32_t end) noexcept {
    std::array<std::span<const std::byte>, io::most_spans> spans;
    std::size_t count = 0;
    for (std::uint32_t chunk = first; chunk != end; chunk = layout_.behind(chunk)) spans[count++] = bytes_of(chunk);
    base::Outcome together = base::Outcome::bytes(0);
    if (count > 1 && layout_.may_write(first)) {
      const WriteChunk begin = layout_[first];
      together = io::write_together(begin.fd, std::span(spans).first(count), begin.at);
    }
    std::uint64_t taken = together.count();
    int error = together.error();
    for (std::uint32_t chunk = first; chunk != end;) {
      const std::uint32_t next = layout_.behind(chunk);
      const std::uint32_t length = layout_[chunk].length;
      std::uint64_t of_it = std::min<std::uint64_t>(taken, length);
      taken -= of_it;
      if (of_it < length && error == 0 && layout_.may_write(chunk)) of_it += write_rest_of(chunk, of_it, error);
      // Release, by the layout: the next copy into this place comes after the write from it.
      if (!layout_.has_written(chunk, of_it, std::exchange(error, 0))) lost_.store(true, std::memory_order_release);
      chunk = next;
    }
  }

  std::uint64_t write_rest_of(std::uint32_t number, std::uint64_t taken, int& error) noexcept {
    const WriteChunk chunk = layout_[number];
    const std::span<std::byte> bytes = bytes_of(number).subspan(taken);
    const base::FileOffset at{chunk.at.value + taken};
    base::Outcome written = io::write_span(chunk.fd, bytes, at, chunk.block);
    // The file system may want more of O_DIRECT than it told, and the descriptor may have got that flag meanwhile.
    if (written.error() == EINVAL) written = chunk.buffered->write(bytes, at);
    error = written.error();
    return written.count();
  }

  // True when there was something to give to the copy engine.
  bool copy_more() noexcept {
    const std::uint32_t before = issued_;
    cuda::Result result = source_.pump(layout_);
    while (result == cuda::success) {
      const std::uint64_t most = std::max<std::uint64_t>(1, issued_ == 0 ? pace_->first_copy : pace_->copy);
      std::uint32_t end = issued_;
      for (std::uint64_t bytes = 0; end < layout_.chunks() && layout_.is_free(end) && bytes < most; ++end) {
        bytes += layout_[end].length;
      }
      if (end == issued_) break;
      issued_ = end;
      result = source_.copy_up_to(end, layout_);
    }
    if (result != cuda::success) give_up(result);
    return issued_ > before;
  }

  void look_after_device(base::SpinBackoff& backoff) noexcept {
    backoff.wait(pace_->past_cache != nullptr ? pace_->past_cache->waits() : base::WaitMode::spin);
    if (!backoff.long_since() || source_.ready() >= issued_) return;
    if (const cuda::Result result = source_.health(); result != cuda::success) give_up(result);
  }

  // What has not come by now does not come any more.
  void give_up(cuda::Result result) noexcept {
    failure_ = result;
    lost_.store(true, std::memory_order_release);
    source_.give_up();
  }

  Layout& layout_;
  const WritePace* pace_ = nullptr;
  Source source_;
  std::uint32_t issued_ = 0;  // chunks before it are on their way to their places, or there
  cuda::Result failure_ = cuda::success;
  std::atomic<bool> lost_{false};                                    // no thread writes any more
  alignas(base::line_bytes) std::atomic<std::uint32_t> claimed_{0};  // the first chunk that is not claimed, in turns
};

}  // namespace sluice::transfer
