// The range is cut into chunks of whole blocks. Chunk n is read into place n % places of the staging ring. Reads end in
// any order; chunks go on to the device in file order, so nothing behind the end of the file, or behind an error, ever
// reaches it.
//
//   begun_    chunks before it have been asked for
//   handed_   chunks before it have been given to the copy engine
//   copied    RingWords::copied: chunks before it have left the staging ring
#include "transfer/disk_read.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <span>

#include "base/pause.h"
#include "gpu/memory.h"
#include "io/file_io.h"
#include "io/uring.h"
#include "observe/carriers.h"
#include "workers/disk_crowd.h"

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
  DiskRead(const FileRange& range, staging::RingLoan& ring, cuda::DevicePtr to, io::Uring& uring) noexcept
      : member_(workers::disk_crowd, range.length),
        range_(range),
        ring_(ring),
        uring_(uring),
        skip_(static_cast<std::uint32_t>(range.at.value % range.unit())),
        chunk_bytes_(std::max(chunk_bytes_for(skip_ + range.length), range.block)),
        chunks_(static_cast<std::uint32_t>((skip_ + range.length + chunk_bytes_ - 1) / chunk_bytes_)),
        places_(std::min<std::uint32_t>(staging::ring_bytes / chunk_bytes_, io::Uring::depth)),
        target_(to - skip_) {}

  Outcome run() noexcept {
    std::atomic_ref(ring_.words().copied).store(0, std::memory_order_relaxed);
    uring_.keep_at_hand(ring_.bytes());
    do {
      begin_more();
      if (on_their_way_ > 0) {
        await_answers();
      } else {
        await_copies_before(begun_ - places_ + 1);  // every place waits for the copy engine
      }
      hand_on();
      // Nobody leaves while the kernel may still write into the staging ring.
    } while (on_their_way_ > 0 || (!over() && handed_ < chunks_));
    await_copies_before(handed_);
    observe::count_carrier(observe::CarriedBy::copy_engine);
    return answer();
  }

  // The ring took none, or not all, of the reads.
  bool was_refused() const noexcept { return refused_; }

 private:
  // A chunk on its way, or arrived and not handed on yet.
  struct Place {
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
    return ring_.bytes().subspan(std::size_t{chunk % places_} * chunk_bytes_, whole_blocks(chunk));
  }
  std::uint32_t copied() const noexcept { return base::look(ring_.words().copied); }

  // A place is free when what lay there has left for the device.
  void begin_more() noexcept {
    while (!over() && !came_short_ && begun_ < chunks_ && (begun_ < places_ || copied() > begun_ - places_)) {
      const std::uint32_t chunk = begun_++;
      place_of(chunk) = {.chunk = chunk};
      ++on_their_way_;
      submit(chunk);
    }
  }

  Place& place_of(std::uint32_t chunk) noexcept { return all_[chunk % places_]; }

  // From the start of the block that the last answer stopped in: O_DIRECT knows whole blocks only.
  void submit(std::uint32_t chunk) noexcept {
    Place& place = place_of(chunk);
    place.from = place.done - place.done % range_.block;
    const std::span<std::byte> rest = memory(chunk).subspan(place.from);
    uring_.add({.fd = range_.fd,
                .address = rest.data(),
                .length = static_cast<std::uint32_t>(rest.size()),
                .at = FileOffset{position(chunk) + place.from},
                .tag = chunk % places_});
  }

  void await_answers() noexcept {
    std::array<io::UringAnswer, io::Uring::depth> answers;
    const int count = uring_.wait(answers);
    if (count < 0) return lost_uring();
    for (int i = 0; i < count; ++i) settle(answers[static_cast<std::size_t>(i)]);
  }

  void settle(const io::UringAnswer& answer) noexcept {
    Place& place = all_[answer.tag];
    if (answer.result < 0) {
      const int error = -answer.result;
      // A ring that polls takes no file without queues for it.
      if (error == EOPNOTSUPP) {
        refused_ = true;
        return read_in_turn(place);
      }
      if (io::was_not_tried(error)) return read_in_turn(place);
      const bool again = error == EINTR || (error == EAGAIN && ++place.refusals < base::most_refusals_in_a_row);
      if (again) return submit(place.chunk);
      return error == EINVAL ? read_buffered(place) : arrive(place, error);
    }
    place.refusals = 0;
    const std::uint32_t reached = place.from + static_cast<std::uint32_t>(answer.result);
    const bool nothing_new = reached <= place.done;
    place.done = std::max(place.done, reached);
    const bool at_the_end = nothing_new || position(place.chunk) + place.done >= range_.file_size;
    if (place.done < whole_blocks(place.chunk) && !at_the_end) return submit(place.chunk);
    arrive(place, 0);
  }

  // What the file system refuses to O_DIRECT after all.
  void read_buffered(Place& place) noexcept {
    const Outcome got = range_.buffered.read(memory(place.chunk), FileOffset{position(place.chunk)});
    place.done = static_cast<std::uint32_t>(got.count());
    arrive(place, got.error());
  }

  void arrive(Place& place, int error) noexcept {
    place.error = error;
    place.arrived = true;
    --on_their_way_;
    if (place.done < span_of(place.chunk)) came_short_ = true;
  }

  // It takes nothing more, and has nothing of ours any more: what it had is read without it. Later chunks meet the
  // same refusal.
  void lost_uring() noexcept {
    for (std::uint32_t chunk = handed_; chunk < begun_; ++chunk) {
      if (Place& place = place_of(chunk); !place.arrived) read_in_turn(place);
    }
  }

  void read_in_turn(Place& place) noexcept {
    const Outcome got = io::read_span(range_.fd, memory(place.chunk), FileOffset{position(place.chunk)}, range_.block,
                                      range_.file_size);
    if (got.error() == EINVAL) return read_buffered(place);
    place.done = static_cast<std::uint32_t>(got.count());
    arrive(place, got.error());
  }

  void hand_on() noexcept {
    const std::uint32_t before = handed_;
    int result = cuda::success;
    while (!over() && handed_ < begun_ && place_of(handed_).arrived && result == cuda::success) {
      const Place& place = place_of(handed_);
      const std::uint32_t end = std::min(place.done, span_of(handed_));
      const std::uint32_t begin = into(handed_);
      if (end > begin) {
        result = ring_.device().copy_to_device(target_ + std::uint64_t{handed_} * chunk_bytes_ + begin,
                                               memory(handed_).subspan(begin, end - begin));
        total_ += end - begin;
      }
      ended_ = end < span_of(handed_);
      if (ended_) error_ = place.error;
      ++handed_;
    }
    if (handed_ > before && result == cuda::success) result = ring_.device().mark(&ring_.words().copied, handed_);
    if (result != cuda::success) give_up(result);
  }

  void await_copies_before(std::uint32_t chunk) noexcept {
    if (failure_ != cuda::success) return;
    if (const int result = ring_.await_copied(chunk, member_.waits()); result != cuda::success) give_up(result);
  }

  void give_up(int result) noexcept {
    failure_ = result;
    ring_.give_up();
  }

  Outcome answer() const noexcept {
    if (failure_ != cuda::success) return gpu::as_outcome(failure_);
    return total_ == 0 && error_ != 0 ? Outcome::system_error(error_) : Outcome::bytes(total_);
  }

  const workers::DiskCrowd::Member member_;
  const FileRange& range_;
  staging::RingLoan& ring_;
  io::Uring& uring_;
  const std::uint32_t skip_;
  const std::uint32_t chunk_bytes_;
  const std::uint32_t chunks_;
  const std::uint32_t places_;
  const cuda::DevicePtr target_;
  std::array<Place, io::Uring::depth> all_{};
  std::uint32_t begun_ = 0;
  std::uint32_t handed_ = 0;
  unsigned on_their_way_ = 0;
  bool came_short_ = false;  // some chunk did: none is begun any more
  bool ended_ = false;       // what was handed on last was the end
  bool refused_ = false;
  int error_ = 0;
  int failure_ = cuda::success;
  std::uint64_t total_ = 0;
};

}  // namespace

std::optional<Outcome> read_from_disk(const FileRange& range, staging::RingLoan& ring, cuda::DevicePtr to) noexcept {
  if (!range.disk.takes_rings()) return std::nullopt;
  const io::Completion completion = range.disk.ring_to_use();
  const io::Uring::Use uring = io::Uring::of_this_thread(completion);
  if (!uring) return std::nullopt;
  DiskRead read(range, ring, to, *uring);
  const Outcome outcome = read.run();
  if (io::is_polled(completion) && read.was_refused()) range.disk.cannot_be_polled();
  return outcome;
}

}  // namespace sluice::transfer
