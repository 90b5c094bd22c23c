// SPDX-License-Identifier: Apache-2.0
// The range is cut into chunks of whole blocks. Chunk n is read into place n % places of the staging buffer. Reads end
// in any order; chunks go on to the device in file order, so nothing behind the end of the file, or behind an error,
// ever reaches it.
//
//   begun_    chunks before it have been asked for
//   handed_   chunks before it have been given to the copy engine
//   copied    StagingWords::copied: chunks before it have left the staging buffer
#include "transfer/disk_read.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <span>

#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "io/file_io.h"
#include "io/uring.h"
#include "observe/copy_counters.h"
#include "workers/slow_disk_gauge.h"

namespace sluice::transfer {

using base::Direction;
using base::FileOffset;
using base::Outcome;

namespace {

// Small enough that a request alone keeps a disk busy, large enough that each read is worth its interrupt.
std::uint32_t chunk_bytes_for(std::uint64_t total) {
  return total <= 512 << 10 ? 128 << 10 : 512 << 10;
}

class DiskRead {
 public:
  DiskRead(const FileRange& range, staging::StagingLease& lease, cuda::DevicePtr to, io::Uring& uring) noexcept
      : member_(workers::slow_disk_gauge, range.length),
        range_(range),
        lease_(lease),
        uring_(uring),
        skip_(static_cast<std::uint32_t>(range.at.value % range.unit())),
        chunk_bytes_(std::max(chunk_bytes_for(skip_ + range.length), range.block)),
        chunks_(static_cast<std::uint32_t>((skip_ + range.length + chunk_bytes_ - 1) / chunk_bytes_)),
        slots_(std::min<std::uint32_t>(staging::staging_bytes / chunk_bytes_, io::Uring::depth)),
        target_(to - skip_) {}

  Outcome run() noexcept {
    std::atomic_ref(lease_.words().copied).store(0, std::memory_order_relaxed);
    uring_.register_buffer(lease_.bytes());
    do {
      begin_more();
      if (on_their_way_ > 0) {
        await_completions();
      } else {
        await_copies_before(begun_ - slots_ + 1);  // every place waits for the copy engine
      }
      pass_on();
      // Nobody leaves while the kernel may still write into the staging buffer.
    } while (on_their_way_ > 0 || (!over() && passed_ < chunks_));
    await_copies_before(passed_);
    observe::count_copy(observe::CopyCounter::copy_engine);
    return answer();
  }

  // The ring took none, or not all, of the reads.
  bool was_refused() const noexcept { return refused_; }

 private:
  // A chunk on its way, or arrived and not handed on yet.
  struct Slot {
    std::uint32_t chunk = 0;
    std::uint32_t done = 0;  // bytes that hold file content
    std::uint32_t from = 0;  // where the present read begins, at most `done`
    int refusals = 0;
    int error = 0;
    bool arrived = false;
  };

  bool over() const noexcept { return ended_ || failure_ != cuda::success; }
  // What chunk 0 begins with, and nobody asked for.
  std::uint32_t into(std::uint32_t chunk) const noexcept { return chunk == 0 ? skip_ : 0; }
  // From the start of the chunk to the end of what is asked for.
  std::uint32_t span_of(std::uint32_t chunk) const noexcept {
    const std::uint64_t begin = std::uint64_t{chunk} * chunk_bytes_;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk_bytes_, skip_ + range_.length - begin));
  }
  std::uint32_t whole_blocks(std::uint32_t chunk) const noexcept {
    return (span_of(chunk) + range_.block - 1) / range_.block * range_.block;
  }
  std::uint64_t position(std::uint32_t chunk) const noexcept {
    return range_.at.value - skip_ + std::uint64_t{chunk} * chunk_bytes_;
  }
  std::span<std::byte> memory(std::uint32_t chunk) const noexcept {
    return lease_.bytes().subspan(std::size_t{chunk % slots_} * chunk_bytes_, whole_blocks(chunk));
  }
  std::uint32_t copied() const noexcept { return base::load_acquire(lease_.words().copied); }

  // A place is free when what lay there has left for the device.
  void begin_more() noexcept {
    while (!over() && !came_short_ && begun_ < chunks_ && (begun_ < slots_ || copied() > begun_ - slots_)) {
      const std::uint32_t chunk = begun_++;
      slot_of(chunk) = {.chunk = chunk};
      ++on_their_way_;
      submit(chunk);
    }
  }

  Slot& slot_of(std::uint32_t chunk) noexcept { return all_[chunk % slots_]; }

  // From the start of the block that the last answer stopped in: O_DIRECT knows whole blocks only.
  void submit(std::uint32_t chunk) noexcept {
    Slot& slot = slot_of(chunk);
    slot.from = slot.done - slot.done % range_.block;
    const std::span<std::byte> rest = memory(chunk).subspan(slot.from);
    uring_.add({.fd = range_.fd,
                .address = rest.data(),
                .length = static_cast<std::uint32_t>(rest.size()),
                .at = FileOffset{position(chunk) + slot.from},
                .tag = chunk % slots_});
  }

  void await_completions() noexcept {
    std::array<io::UringCompletion, io::Uring::depth> answers;
    const int count = uring_.wait(answers);
    if (count < 0) return lost_uring();
    for (int i = 0; i < count; ++i) settle(answers[static_cast<std::size_t>(i)]);
  }

  void settle(const io::UringCompletion& answer) noexcept {
    Slot& slot = all_[answer.tag];
    if (answer.result < 0) {
      const int error = -answer.result;
      // A ring that polls takes no file without queues for it.
      if (error == EOPNOTSUPP) {
        refused_ = true;
        return read_in_turn(slot);
      }
      if (io::was_not_tried(error)) return read_in_turn(slot);
      const bool again = error == EINTR || (error == EAGAIN && ++slot.refusals < base::most_refusals_in_a_row);
      if (again) return submit(slot.chunk);
      return error == EINVAL ? read_buffered(slot) : arrive(slot, error);
    }
    slot.refusals = 0;
    const std::uint32_t reached = slot.from + static_cast<std::uint32_t>(answer.result);
    const bool nothing_new = reached <= slot.done;
    slot.done = std::max(slot.done, reached);
    const bool at_the_end = nothing_new || position(slot.chunk) + slot.done >= range_.file_size;
    if (slot.done < whole_blocks(slot.chunk) && !at_the_end) return submit(slot.chunk);
    arrive(slot, 0);
  }

  // What the file system refuses to O_DIRECT after all.
  void read_buffered(Slot& slot) noexcept {
    const Outcome got = range_.buffered.read(memory(slot.chunk), FileOffset{position(slot.chunk)});
    slot.done = static_cast<std::uint32_t>(got.count());
    arrive(slot, got.error());
  }

  void arrive(Slot& slot, int error) noexcept {
    slot.error = error;
    slot.arrived = true;
    --on_their_way_;
    if (slot.done < span_of(slot.chunk)) came_short_ = true;
  }

  // It takes nothing more, and has nothing of ours any more: what it had is read without it. Later chunks meet the
  // same refusal.
  void lost_uring() noexcept {
    for (std::uint32_t chunk = passed_; chunk < begun_; ++chunk) {
      if (Slot& slot = slot_of(chunk); !slot.arrived) read_in_turn(slot);
    }
  }

  void read_in_turn(Slot& slot) noexcept {
    const Outcome got =
        io::read_span(range_.fd, memory(slot.chunk), FileOffset{position(slot.chunk)}, range_.block, range_.file_size);
    if (got.error() == EINVAL) return read_buffered(slot);
    slot.done = static_cast<std::uint32_t>(got.count());
    arrive(slot, got.error());
  }

  void pass_on() noexcept {
    const std::uint32_t before = passed_;
    int result = cuda::success;
    while (!over() && passed_ < begun_ && slot_of(passed_).arrived && result == cuda::success) {
      const Slot& slot = slot_of(passed_);
      const std::uint32_t end = std::min(slot.done, span_of(passed_));
      const std::uint32_t begin = into(passed_);
      if (end > begin) {
        result = lease_.device().copy_to_device(target_ + std::uint64_t{passed_} * chunk_bytes_ + begin,
                                                memory(passed_).subspan(begin, end - begin));
        total_ += end - begin;
      }
      ended_ = end < span_of(passed_);
      if (ended_) error_ = slot.error;
      ++passed_;
    }
    if (passed_ > before && result == cuda::success) result = lease_.device().mark(&lease_.words().copied, passed_);
    if (result != cuda::success) give_up(result);
  }

  void await_copies_before(std::uint32_t chunk) noexcept {
    if (failure_ != cuda::success) return;
    if (const int result = lease_.await_copied(chunk, member_.waits()); result != cuda::success) give_up(result);
  }

  void give_up(int result) noexcept {
    failure_ = result;
    lease_.give_up();
  }

  Outcome answer() const noexcept {
    if (failure_ != cuda::success) return gpu::as_outcome(failure_);
    return total_ == 0 && error_ != 0 ? Outcome::system_error(error_) : Outcome::bytes(total_);
  }

  const workers::SlowDiskGauge::Scope member_;
  const FileRange& range_;
  staging::StagingLease& lease_;
  io::Uring& uring_;
  const std::uint32_t skip_;
  const std::uint32_t chunk_bytes_;
  const std::uint32_t chunks_;
  const std::uint32_t slots_;
  const cuda::DevicePtr target_;
  std::array<Slot, io::Uring::depth> all_{};
  std::uint32_t begun_ = 0;
  std::uint32_t passed_ = 0;
  unsigned on_their_way_ = 0;
  bool came_short_ = false;  // some chunk did: none is begun any more
  bool ended_ = false;       // what was handed on last was the end
  bool refused_ = false;
  int error_ = 0;
  int failure_ = cuda::success;
  std::uint64_t total_ = 0;
};

}  // namespace

std::optional<Outcome> read_from_disk(const FileRange& range, staging::StagingLease& lease,
                                      cuda::DevicePtr to) noexcept {
  if (!range.disk.takes_rings()) return std::nullopt;
  const io::CompletionMode completion = range.disk.ring_to_use();
  const io::Uring::Use uring = io::Uring::of_this_thread(completion);
  if (!uring) return std::nullopt;
  DiskRead read(range, lease, to, *uring);
  const Outcome outcome = read.run();
  if (io::is_polled(completion) && read.was_refused()) range.disk.cannot_be_polled();
  return outcome;
}

}  // namespace sluice::transfer
