// SPDX-License-Identifier: Apache-2.0
// One piece is on its way from the device while another is being written. A file system lets one writer at a time into
// a file that it buffers, and what the writer does there is for the most part waiting for memory. So helpers take turns
// at a large write into the page cache: each prefetches the place that its piece goes to while another one writes, and
// when its turn comes it is through in half the time or less. Nobody prefetches anything while it could write, but
// beside writers of other requests: those wait for the file, too, and what is prefetched outside keeps nobody waiting
// inside.
//
//   next_        the first piece that nobody has claimed
//   turn_        pieces before it are written; its helper may write, nobody else
//   StagingWords::copied   pieces before it have come from the device
//
// Alone, a writer begins with a small piece, so that writing begins soon; all others are large, since each costs two
// calls of the driver, made by the calling thread, and a call of the file system's, whose price does not depend on the
// size alone: ext4 goes through all blocks of a folio with each write into it, and folios of up to 8 MiB are usual.
#include "transfer/device_write.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>

#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "io/file_io.h"
#include "io/prefetch.h"
#include "observe/copy_counters.h"
#include "workers/active_count.h"
#include "workers/slow_disk_gauge.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

using base::FileOffset;
using base::Outcome;

namespace {

struct Plan {
  std::uint64_t first;  // piece
  std::uint64_t whole;  // of all others
  unsigned helpers;     // besides the caller's
};
constexpr Plan buffered_alone{128 << 10, 2 << 20, 0};
constexpr Plan direct{1 << 20, 1 << 20, 0};
// Where others are at work and workers do not go round: the file system may keep us waiting, and each call more is one
// turn more to wait for.
constexpr Plan in_crowd{1 << 20, 2 << 20, 0};
// Beside others that write to the same file: a piece and its place fit into the cache of one processor.
constexpr Plan beside_others{1 << 20, 1 << 20, 0};
constexpr Plan in_turns{512 << 10, 512 << 10, 1};
constexpr Plan in_turns_of_three{512 << 10, 512 << 10, 2};
// Measured on an H200: a third helper makes 16 MiB a sixth quicker and costs a third more processor time.
constexpr std::uint64_t smallest_for_turns = 1 << 20;
constexpr std::uint64_t smallest_for_three = 33 << 20;

constexpr bool fits_the_buffer(const Plan& plan) {
  return staging::staging_bytes % plan.whole == 0 && staging::staging_bytes >= (plan.helpers + 2) * plan.whole &&
         plan.first <= plan.whole;
}
static_assert(fits_the_buffer(buffered_alone) && fits_the_buffer(direct) && fits_the_buffer(in_crowd) &&
              fits_the_buffer(beside_others) && fits_the_buffer(in_turns) && fits_the_buffer(in_turns_of_three));

// Is the place in the page cache where writing begins and where it ends? What lies between is asked for piece by piece.
bool place_seems_cached(const FileRange& range) noexcept {
  constexpr std::uint64_t end_bytes = 64 << 10;
  return io::is_cached(range.place.fd, range.at, std::min(range.length, end_bytes)) &&
         (range.length <= end_bytes ||
          io::is_cached(range.place.fd, FileOffset{range.at.value + range.length - end_bytes}, end_bytes));
}

Plan plan_for(const FileRange& range, bool beside) noexcept {
  if (range.block > 1) return direct;
  if (beside && range.place.fd >= 0) return beside_others;
  if (beside || (workers::active_jobs() > 0 && !workers::workers_suffice(workers::active_jobs() + 1))) return in_crowd;
  if (range.length < smallest_for_turns || workers::worker_count() == 0 || !place_seems_cached(range))
    return buffered_alone;
  return range.length < smallest_for_three ? in_turns : in_turns_of_three;
}

class DeviceWrite final : public workers::Job {
 public:
  DeviceWrite(const FileRange& range, staging::StagingLease& lease, cuda::DevicePtr from) noexcept
      : writers_(workers::active_counts::writers_of(range.file)),
        writer_(writers_),
        past_cache_(workers::slow_disk_gauge, range.block > 1 ? range.length : 0),
        range_(range),
        lease_(lease),
        from_(from),
        plan_(plan_for(range, writer_.count() > 1)) {}

  Outcome run() noexcept {
    std::atomic_ref(lease_.words().copied).store(0, std::memory_order_relaxed);
    fetch_more();
    {
      std::optional<workers::JobScope> scope;
      if (plan_.helpers > 0) scope.emplace(*this, plan_.helpers);
      take_turns(Who::caller);
      // The last turn is another helper's: time to prefetch where the caller is likely to write next.
      io::Prefetch next_range = first_place_of_next();
      base::SpinBackoff backoff;
      while (!is_over()) {
        if (next_range.step()) {
          fetch_more();
        } else {
          look_after_device(backoff);
        }
      }
    }
    // After a refusal a copy may still be on its way into the staging buffer.
    if (issued_ > 0 && copied() < issued_) lease_.device().finish_copies();
    observe::count_copy(observe::CopyCounter::copy_engine);
    if (done_ > 0) return Outcome::bytes(done_);
    return failure_ != cuda::success ? gpu::as_outcome(failure_) : refusal_;
  }

  void run_helper(unsigned /*number*/) noexcept override { take_turns(Who::cursor); }

 private:
  enum class Who : std::uint8_t { caller, cursor };

  // From the start of the range. The first two pieces make a whole one together, unless the first is one: none lies
  // across the buffer's end, and neighbours lie apart.
  std::uint64_t beginning(std::uint32_t piece) const noexcept {
    if (piece < 2) return piece * plan_.first;
    return (piece - (plan_.first < plan_.whole ? 1 : 0)) * plan_.whole;
  }
  std::uint64_t length(std::uint32_t piece) const noexcept {
    return std::min(beginning(piece + 1), range_.length) - beginning(piece);
  }
  FileOffset place_in_file(std::uint32_t piece) const noexcept { return {range_.at.value + beginning(piece)}; }
  std::span<std::byte> place(std::uint32_t piece) const noexcept {
    return lease_.bytes().subspan(beginning(piece) % staging::staging_bytes, length(piece));
  }
  std::uint32_t copied() const noexcept { return base::load_acquire(lease_.words().copied); }
  // Acquire: what the helpers before this one have left.
  std::uint32_t claimed() const noexcept { return turn_.load(std::memory_order_acquire); }
  bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  bool is_over() const noexcept { return has_ended() || beginning(claimed()) >= range_.length; }
  bool may_write(std::uint32_t piece) const noexcept { return copied() > piece && claimed() == piece; }

  // The first piece is the caller's, which may have prefetched its place already.
  void take_turns(Who who) noexcept {
    const auto claim = [this] { return next_.fetch_add(1, std::memory_order_relaxed); };
    for (std::uint32_t piece = who == Who::caller ? 0 : claim(); beginning(piece) < range_.length; piece = claim()) {
      if (!wait_for_turn(piece, who)) return;
      write(piece);
      // Nobody's turn comes behind a piece that was refused.
      if (has_ended()) return;
      turn_.store(piece + 1, std::memory_order_release);
      if (who == Who::caller) fetch_more();
    }
  }

  io::Prefetch first_place_of_next() const noexcept {
    if (plan_.helpers == 0) return {};
    return io::Prefetch::of_write_range(range_.place, FileOffset{range_.at.value + range_.length},
                                        std::min(range_.next_range, plan_.first), io::Prefetch::Step::of_four_pages);
  }

  // False: there will not be one.
  bool wait_for_turn(std::uint32_t piece, Who who) noexcept {
    io::Prefetch prefetch = io::Prefetch::of_write_range(range_.place, place_in_file(piece), length(piece),
                                                         io::Prefetch::Step::of_four_pages);
    base::SpinBackoff backoff;
    while (!has_ended()) {
      if (may_write(piece)) {
        while (writers_.now() > 1 && prefetch.step()) {
        }
        return true;
      }
      if (who == Who::caller) fetch_more();
      if (prefetch.step()) continue;
      if (who == Who::caller) {
        look_after_device(backoff);
      } else {
        backoff.wait();
      }
    }
    return false;
  }

  // In its turn.
  void write(std::uint32_t piece) noexcept {
    Outcome written = io::write_span(range_.fd, place(piece), place_in_file(piece), range_.block);
    if (written.error() == EINVAL) written = range_.buffered.write(place(piece), place_in_file(piece));
    if (!written.ok()) refusal_ = written;
    done_ += written.count();
    if (written.count() < length(piece)) ended_.store(true, std::memory_order_release);
  }

  // The caller's, as all that speaks to the device.
  void fetch_more() noexcept {
    const std::uint32_t end = claimed() + plan_.helpers + 2;
    while (issued_ < end && beginning(issued_) < range_.length && failure_ == cuda::success) {
      gpu::Staging& device = lease_.device();
      int result = device.copy_from_device(place(issued_), from_ + beginning(issued_));
      if (result == cuda::success) result = device.mark(&lease_.words().copied, ++issued_);
      if (result != cuda::success) give_up(result);
    }
  }

  void look_after_device(base::SpinBackoff& backoff) noexcept {
    fetch_more();
    backoff.wait(past_cache_.waits());
    if (!backoff.long_since() || copied() >= issued_ || failure_ != cuda::success) return;
    if (const int result = lease_.device().health(); result != cuda::success) give_up(result);
  }

  void give_up(int result) noexcept {
    failure_ = result;
    lease_.give_up();
    ended_.store(true, std::memory_order_release);
  }

  workers::ActiveCount& writers_;  // to the file
  const workers::ActiveCount::Scope writer_;
  const workers::SlowDiskGauge::Scope past_cache_;  // if it goes there
  const FileRange& range_;
  staging::StagingLease& lease_;
  const cuda::DevicePtr from_;
  const Plan plan_;
  std::uint32_t issued_ = 0;
  int failure_ = cuda::success;

  // Of the thread that has the turn, passed on with turn_.
  std::uint64_t done_ = 0;
  Outcome refusal_ = Outcome::bytes(0);

  alignas(64) std::atomic<std::uint32_t> next_{1};
  alignas(64) std::atomic<std::uint32_t> turn_{0};
  std::atomic<bool> ended_{false};
};

}  // namespace

Outcome write_from_device(const FileRange& range, staging::StagingLease& lease, cuda::DevicePtr from) noexcept {
  return DeviceWrite(range, lease, from).run();
}

}  // namespace sluice::transfer
