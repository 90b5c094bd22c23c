// SPDX-License-Identifier: Apache-2.0
// One request, cut into chunks, which are read into places of the staging buffer (staging/slot_cursor.h). Chunks are
// read in any order and released in file order, so nothing behind the end of the file, or behind an error, ever reaches
// the device.
//
//   next_        the first chunk that nobody has claimed
//   released_    chunks before it hold their final bytes; those behind may be half read
//   kernels_     chunks before it are the kernel's, all others the copy engine's
//   copied_      of these, chunks before it have left the staging buffer (the kernel tells by StagingWords::completed)
//
// The calling thread launches, reads like everybody else, and looks after the device. It may be stuck in its storage
// while the kernel waits; then the sentinel takes the rest away from the kernel, and what is read later is copied.
#include "transfer/device_read.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/backoff.h"
#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "io/file_io.h"
#include "io/sentinel.h"
#include "observe/copy_counters.h"
#include "staging/slot_cursor.h"
#include "transfer/disk_read.h"
#include "transfer/read_cut.h"
#include "workers/helper_sleep.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

using base::FileOffset;
using base::Outcome;

namespace {

// Beside other requests of ours a kernel takes its time to begin, and the copy engine gets little of a link that they
// fill: it is worth as long as its bytes would take.
std::chrono::microseconds kernel_start_timeout(std::uint64_t bytes) noexcept {
  using std::chrono::microseconds;
  constexpr std::uint64_t bytes_a_microsecond = 8192;
  if (workers::active_jobs() <= 1) return staging::lone_kernel_start_timeout(bytes);
  return std::clamp(microseconds(bytes / bytes_a_microsecond), microseconds(400), microseconds(3000));
}

// In a crowd, one that begins later than this would have left the copy engine time for some megabytes.
constexpr auto late_in_crowd = std::chrono::microseconds(200);

// Blocks of the kernel, for all requests that are under way together. Enough to keep the link busy; more only take
// processors from the program's own kernels. Of small chunks each block is on its way to the next one more often.
constexpr unsigned fewest_blocks = 4;

constexpr unsigned blocks_for(std::uint32_t chunk_bytes, unsigned requests) {
  const unsigned for_all = chunk_bytes < (64U << 10U) ? 32 : 16;
  return std::max(fewest_blocks, for_all / std::max(1U, requests));
}

// The kernel takes source and target alike aligned; O_DIRECT wants its places on a page.
bool can_be_gathered(const FileRange& range, cuda::DevicePtr to) {
  return range.block == 1 || (to - range.at.value % range.unit()) % 16 == 0;
}

// Yes where the file system will not say.
bool is_cached_at(int fd, std::uint64_t position) noexcept {
  std::byte byte{};
  const iovec one{&byte, 1};
  return ::preadv2(fd, &one, 1, static_cast<off_t>(position), RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

// Is the range in the page cache, as far as its ends tell?
bool seems_cached(const FileRange& range) noexcept {
  if (range.block > 1 || !is_cached_at(range.fd, range.at.value)) return false;
  const std::uint64_t end = range.at.value + range.length;
  const std::uint64_t known_end = std::min(end, range.file_size);
  if (known_end <= range.at.value || is_cached_at(range.fd, known_end - 1)) return true;
  // Some kernels have nothing behind the end of a file, either, and say so. Where nobody has asked where the file ends,
  // this does.
  const std::uint64_t there = std::min(end, range.now.size());
  return there < known_end && (there <= range.at.value || is_cached_at(range.fd, there - 1));
}

constinit thread_local workers::HelperSleep helper_sleep;

class DeviceRead final : public workers::Job, public io::Sentinel::Charge {
 public:
  DeviceRead(const FileRange& range, const ReadCut& cut, staging::StagingLease& lease, cuda::DevicePtr to,
             bool by_kernel) noexcept
      : range_(range),
        cut_(cut),
        lease_(lease),
        words_(lease.words()),
        slots_(lease.bytes().data() + cut.shift),
        target_(to - cut.skip),
        first_number_(lease.numbers(cut.chunks)),
        kernels_(by_kernel ? all_of_them : 0) {}

  Outcome run() noexcept {
    std::atomic_ref(words_.copied).store(0, std::memory_order_relaxed);
    {
      const workers::JobScope scope(*this, cut_.helpers);
      if (by_kernel()) launch();
      std::optional<io::Sentinel::Watch> watch;
      if (by_kernel() && !watch.emplace(*this)) revoke();
      const auto began = std::chrono::steady_clock::now();
      // The first chunk is the caller's: revoking a launch needs its ticket (see revoke).
      staging::SlotCursor cursor(cut_.slots, 0);
      for (std::uint32_t chunk = 0; chunk < cut_.chunks; chunk = next_.fetch_add(1, std::memory_order_relaxed)) {
        wait_for_room(cursor, chunk);
        if (is_lost()) break;
        read(cursor, chunk);
        release();
        if (by_kernel()) {
          watch_for_begin();
        } else {
          pump();
        }
      }
      if (cut_.tells && by_kernel() && !comes_short() && workers::active_jobs() == 1) {
        lease_.tuner_for(range_.length)
            .learn(std::chrono::steady_clock::now() - began, range_.length, cut_.helpers < workers::worker_count());
      }
      finish();
    }
    return answer();
  }

  void run_helper(unsigned number) noexcept override {
    staging::SlotCursor cursor(cut_.slots, number);
    bool may_sleep = cut_.helpers_sleep && helper_sleep.is_allowed();
    for (;;) {
      while (may_sleep && is_ahead(cursor)) may_sleep = helper_sleep.take();
      const std::uint32_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= cut_.chunks) return;
      base::SpinBackoff backoff;
      while (!has_room(cursor, chunk)) backoff.wait();
      if (is_lost()) return;
      read(cursor, chunk);
      release();
    }
  }

 private:
  struct ChunkState {
    std::atomic<std::uint32_t> begun{0};  // the number of the chunk that somebody reads
    std::atomic<std::uint32_t> ready{0};  // of the one that has been read
    std::uint32_t slot = 0;               // where it lies
    std::uint32_t length = 0;             // of what goes on to the device; final once released
    std::int64_t outcome = 0;
  };

  static constexpr std::uint32_t all_of_them = ~std::uint32_t{0};  // as a value of kernels_
  bool by_kernel() const noexcept { return kernels_.load(std::memory_order_acquire) == all_of_them; }
  std::uint32_t number(std::uint32_t chunk) const noexcept { return first_number_ + chunk; }
  std::uint32_t into(std::uint32_t chunk) const noexcept { return chunk == 0 ? cut_.skip : 0; }
  // Of a chunk that has been read, or is being read by this thread.
  ChunkState& state(std::uint32_t chunk) noexcept { return states_[chunk % gpu::ticket_slots]; }
  const ChunkState& state(std::uint32_t chunk) const noexcept { return states_[chunk % gpu::ticket_slots]; }
  std::byte* slot(std::uint32_t chunk) const noexcept {
    return slots_ + std::size_t{state(chunk).slot} * cut_.chunk_bytes;
  }
  // How many bytes of the chunk are asked for.
  std::uint32_t wanted(std::uint32_t chunk) const noexcept {
    const std::uint64_t begin = std::uint64_t{chunk} * cut_.chunk_bytes;
    const std::uint64_t end = std::min(begin + cut_.chunk_bytes, cut_.skip + range_.length);
    return static_cast<std::uint32_t>(end - begin) - into(chunk);
  }

  static constexpr std::uint32_t lost = ~std::uint32_t{0};  // as a value of copied_
  bool is_lost() const noexcept { return copied_.load(std::memory_order_acquire) == lost; }
  bool has_left(std::uint32_t chunk) const noexcept {
    const std::uint32_t copied = copied_.load(std::memory_order_acquire);
    if (copied == lost) return true;
    if (chunk >= kernels_.load(std::memory_order_acquire)) return copied > chunk;
    return is_completed(chunk);
  }
  // By the kernel.
  bool is_completed(std::uint32_t chunk) const noexcept {
    // The last one of this slot, perhaps of an earlier request.
    const std::uint32_t last = base::load_acquire(words_.completed[chunk % gpu::ticket_slots]) - first_number_;
    return last < cut_.chunks && last >= chunk;
  }
  bool has_room(const staging::SlotCursor& cursor, std::uint32_t chunk) const noexcept {
    if (chunk >= gpu::ticket_slots && !has_left(chunk - gpu::ticket_slots)) return false;
    const std::optional<std::uint32_t> before = cursor.in_the_way_of(chunk);
    return !before || has_left(*before);
  }

  // Its places are full, and so much is unclaimed that the request will not end before the next sleep does.
  bool is_ahead(const staging::SlotCursor& cursor) const noexcept {
    const std::optional<std::uint32_t> before = cursor.in_the_way();
    return before && by_kernel() && !comes_short() &&
           next_.load(std::memory_order_relaxed) + cut_.slots.count <= cut_.chunks && !has_left(*before);
  }

  // The caller's.
  void wait_for_room(const staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    if (has_room(cursor, chunk)) return;
    base::SpinBackoff backoff = device_backoff();
    do {
      look_after_device(backoff);
    } while (!has_room(cursor, chunk));
  }

  void read(staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    ChunkState& state = this->state(chunk);
    state.slot = cursor.slot_for(chunk);
    cursor.has_read(chunk);
    state.outcome = 0;
    state.begun.store(number(chunk), std::memory_order_relaxed);
    if (chunk < end_.load(std::memory_order_relaxed)) {
      // Whole blocks, where O_DIRECT wants them; from the start of the range, where it does not.
      const std::uint32_t ahead = range_.block > 1 ? 0 : into(chunk);
      const std::uint64_t size = std::uint64_t{into(chunk)} + wanted(chunk) - ahead;
      const std::uint64_t whole = (size + range_.block - 1) / range_.block * range_.block;
      const FileOffset at{range_.at.value - cut_.skip + std::uint64_t{chunk} * cut_.chunk_bytes + ahead};
      const std::span<std::byte> into_slot{slot(chunk) + ahead, whole};
      Outcome got = io::read_span(range_.fd, into_slot, at, range_.block, range_.file_size);
      if (got.error() == EINVAL) got = range_.buffered.read(into_slot, at);
      const std::uint64_t before = into(chunk) - ahead;
      state.outcome = got.ok() ? static_cast<std::int64_t>(std::min<std::uint64_t>(
                                     got.count() - std::min(got.count(), before), wanted(chunk)))
                               : got.value();
      // Nothing has been released yet. A kernel was launched just now, and takes as long to begin.
      if (chunk == 0 && !range_.now.finds_the_file()) state.outcome = -EBADF;
      if (state.outcome < static_cast<std::int64_t>(wanted(chunk))) ends_with(chunk);
    }
    state.ready.store(number(chunk), std::memory_order_seq_cst);
  }

  // Chunks behind one that came short are not read; those before it still are.
  void ends_with(std::uint32_t chunk) noexcept {
    std::uint32_t known = end_.load(std::memory_order_relaxed);
    while (chunk < known && !end_.compare_exchange_weak(known, chunk, std::memory_order_relaxed)) {
    }
  }

  bool comes_short() const noexcept { return end_.load(std::memory_order_relaxed) < cut_.chunks; }

  bool next_is_ready() const noexcept {
    const std::uint32_t chunk = released_.load(std::memory_order_relaxed);
    return chunk < cut_.chunks && state(chunk).ready.load(std::memory_order_seq_cst) == number(chunk);
  }

  // One thread releases at a time; others leave their chunks to it. Nobody's chunk is forgotten: it was
  // made ready before the flag was looked at, and the releasing thread looks again after it has taken its flag down.
  void release() noexcept {
    while (next_is_ready() && !releasing_.exchange(true, std::memory_order_seq_cst)) {
      while (next_is_ready()) release_next();
      releasing_.store(false, std::memory_order_seq_cst);
    }
  }

  void release_next() noexcept {
    const std::uint32_t chunk = released_.load(std::memory_order_relaxed);
    ChunkState& state = this->state(chunk);
    state.length = 0;
    if (!ended_) {
      if (state.outcome > 0) state.length = static_cast<std::uint32_t>(state.outcome);
      if (state.outcome < 0) error_ = static_cast<int>(-state.outcome);
      total_ += state.length;
      ended_ = state.length < wanted(chunk);
    }
    // The kernel's turn. The bytes were written by a thread that made the chunk ready after them; what is read here in
    // that order, the device reads in that order.
    if (by_kernel()) publish(chunk, gpu::ticket_of(number(chunk), state.length, state.slot));
    released_.store(chunk + 1, std::memory_order_release);
  }

  void publish(std::uint32_t chunk, std::uint64_t value) noexcept {
    const std::atomic_ref ticket(words_.tickets[chunk % gpu::ticket_slots].value);
    if (chunk > 0) return ticket.store(value, std::memory_order_release);
    std::uint64_t none = 0;  // unless a revoke() came between
    ticket.compare_exchange_strong(none, value, std::memory_order_release, std::memory_order_relaxed);
  }

  void launch() noexcept {
    launch_id_ = lease_.next_launch_id();
    std::atomic_ref(words_.tickets[0].value).store(0, std::memory_order_release);  // may still say revoked
    const int result = lease_.device().launch({.slots = slots_,
                                               .target = target_,
                                               .tickets = words_.tickets.data(),
                                               .completed = words_.completed.data(),
                                               .words = &words_.launch,
                                               .chunk_bytes = cut_.chunk_bytes,
                                               .stride = cut_.chunk_bytes,
                                               .skip = cut_.skip,
                                               .chunks = cut_.chunks,
                                               .silent_up_to = cut_.slots.enough_for(),
                                               .first_number = first_number_,
                                               .launch_id = launch_id_,
                                               .most_blocks = blocks_for(cut_.chunk_bytes, workers::active_jobs())});
    launched_ = std::chrono::steady_clock::now();
    if (result != cuda::success) kernels_.store(0, std::memory_order_release);
    begins_ = cut_.in_crowd ? Begin::awaited : Begin::of_no_interest;
  }

  // In a crowd: when does the kernel begin?
  void watch_for_begin() noexcept {
    if (begins_ != Begin::awaited) return;
    if (base::load_acquire(words_.launch.begun) == launch_id_) {
      begins_ = Begin::in_time;
    } else if (std::chrono::steady_clock::now() - launched_ > late_in_crowd) {
      begins_ = Begin::late;
    }
  }

  // Takes the work back from a kernel that has not begun. False: it has.
  //
  // Chunk 0's ticket is exchanged, not overwritten: when its slot has been used again the kernel has begun, and needs
  // what is there. Otherwise either the first block reads `revoked`, or this thread reads `begun`; a full
  // fence on both sides excludes that neither does. Afterwards nobody writes a ticket into slot 0 while the launch is
  // pending: a later chunk gets that slot only after the copy engine has emptied it, which is after by_kernel_ was
  // revoked.
  bool revoke() noexcept {
    if (turning_.exchange(true, std::memory_order_acquire)) return false;  // the sentinel is at it
    bool off = by_kernel() && mark_off();
    if (off && base::load_acquire(words_.launch.begun) == launch_id_) {
      base::SpinBackoff backoff;
      while (base::load_acquire(words_.launch.commit) >> 2U != launch_id_ && (!backoff.long_since() || is_healthy()))
        backoff.wait();
      off = has_commit(Commit::off);
    }
    if (off) {
      kernels_.store(0, std::memory_order_release);
      count_revoked();
    }
    turning_.store(false, std::memory_order_release);
    return off;
  }

  // False: the kernel has begun, and has had that ticket.
  bool mark_off() noexcept {
    const std::atomic_ref ticket(words_.tickets[0].value);
    std::uint64_t seen = ticket.load(std::memory_order_relaxed);
    do {
      if (seen != 0 && static_cast<std::uint32_t>(seen) != first_number_) return false;
    } while (!ticket.compare_exchange_weak(seen, gpu::revoked_ticket, std::memory_order_seq_cst));
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return true;
  }

  enum class Commit : std::uint32_t { go = 1, off = 2 };
  bool has_commit(Commit commit) const noexcept {
    return base::load_acquire(words_.launch.commit) == (launch_id_ << 2U | static_cast<std::uint32_t>(commit));
  }

  // The caller's.
  void count_revoked() noexcept {
    lease_.revoked(launch_id_);
    observe::count_copy(observe::CopyCounter::kernel_revoked);
  }

  // By the sentinel. The reader of the chunk that the kernel waits for has been at it for a while, in a storage.
  void look_in() noexcept override {
    const std::uint32_t chunk = released_.load(std::memory_order_acquire);
    const bool is_being_read = by_kernel() && chunk < cut_.chunks &&
                               state(chunk).begun.load(std::memory_order_relaxed) == number(chunk) &&
                               state(chunk).ready.load(std::memory_order_relaxed) != number(chunk);
    const bool is_stuck = is_being_read && seen_reading_ == chunk;
    seen_reading_ = is_being_read ? chunk : cut_.chunks;
    if (is_stuck && !turning_.exchange(true, std::memory_order_acquire)) {
      turn_over();
      turning_.store(false, std::memory_order_release);
    }
  }

  // Takes what is not released yet away from the kernel: all of it, where it has not begun; else it gets tickets for
  // nothing, and leaves with the last one.
  void turn_over() noexcept {
    base::Backoff backoff;
    while (releasing_.exchange(true, std::memory_order_seq_cst)) backoff.wait();
    const std::uint32_t first = released_.load(std::memory_order_relaxed);
    if (by_kernel() && first < cut_.chunks) {
      const bool marked = mark_off();
      bool off = marked;
      if (marked && base::load_acquire(words_.launch.begun) == launch_id_) {
        await_commit();
        off = has_commit(Commit::off);
      }
      if (off) {
        ending_ = Ending::revoked;
        kernels_.store(0, std::memory_order_release);
      } else if (first > 0 && (!marked || has_commit(Commit::go))) {
        ending_ = Ending::cut;
        next_nothing_ = first;
        kernels_.store(first, std::memory_order_release);
      }
    }
    releasing_.store(false, std::memory_order_seq_cst);
    release();  // what has become ready meanwhile
    if (ending_ == Ending::cut) publish_nothing();
  }

  // The kernel has begun, and says at once what it has found. (Or its device is lost, which the caller finds out.)
  void await_commit() const noexcept {
    base::Backoff backoff;
    for (int look = 0; look < most_looks_at_the_commit && !has_commit(Commit::go) && !has_commit(Commit::off); ++look) {
      backoff.wait();
    }
  }

  // As many as there is room for; a slot is free when the kernel is done with what it had there.
  void publish_nothing() noexcept {
    for (; next_nothing_ < cut_.chunks; ++next_nothing_) {
      const std::uint32_t slots = gpu::ticket_slots;
      if (next_nothing_ >= slots && !is_completed(next_nothing_ - slots)) return;
      const std::atomic_ref ticket(words_.tickets[next_nothing_ % slots].value);
      ticket.store(gpu::ticket_of(number(next_nothing_), 0, 0), std::memory_order_release);
    }
  }

  bool is_healthy() noexcept {
    const int result = lease_.device().health();
    if (result == cuda::success) return true;
    give_up(result);
    return false;
  }

  // The device is lost to this context. A thread that waits for a slot is let go, and leaves it as it is: what lies
  // there may not have been released yet.
  void give_up(int result) noexcept {
    failure_ = result;
    lease_.condemn();
    ends_with(0);
    copied_.store(lost, std::memory_order_release);
  }

  void look_after_device(base::SpinBackoff& backoff) noexcept {
    backoff.wait();
    if (failure_ != cuda::success) return;
    if (!by_kernel()) {
      pump();
    } else if (base::load_acquire(words_.launch.begun) != launch_id_) {
      watch_for_begin();
      if (std::chrono::steady_clock::now() - launched_ > kernel_start_timeout(range_.length)) revoke();
    } else if (backoff.long_since()) {
      is_healthy();
    }
  }

  // Gives the copy engine what has been released, neighbouring chunks in one copy, and sees how far it is.
  void pump() noexcept {
    if (failure_ != cuda::success) return;
    const std::uint32_t first = kernels_.load(std::memory_order_acquire);
    issued_ = std::max(issued_, first);
    copied_.store(base::load_acquire(words_.copied), std::memory_order_release);
    const std::uint32_t ready = released_.load(std::memory_order_acquire);
    const bool idle = cut_.less_when_idle && std::max(first, copied_.load(std::memory_order_relaxed)) == issued_;
    if (issued_ < ready && (idle || ready - issued_ >= cut_.chunks_a_copy || ready == cut_.chunks)) {
      int result = cuda::success;
      while (issued_ < ready && result == cuda::success) result = copy_some(ready);
      if (result == cuda::success) result = lease_.device().mark(&words_.copied, issued_);
      if (result != cuda::success) {
        lease_.device().finish_copies();
        give_up(result);
        return;
      }
    }
  }

  int copy_some(std::uint32_t ready) noexcept {
    const std::uint32_t first = issued_;
    const std::byte* const from = slot(first) + into(first);
    std::size_t size = 0;
    do {
      const std::uint32_t length = state(issued_).length;
      size += length;
      ++issued_;
      if (into(issued_ - 1) + length < cut_.chunk_bytes) break;
    } while (issued_ < ready && slot(issued_) == slot(issued_ - 1) + cut_.chunk_bytes);
    if (size == 0) return cuda::success;
    return lease_.device().copy_to_device(target_ + std::uint64_t{first} * cut_.chunk_bytes + into(first),
                                          {from, size});
  }

  // In a crowd the copies of all stand in one line.
  base::SpinBackoff device_backoff() const noexcept {
    return cut_.in_crowd && !by_kernel() ? base::SpinBackoff(std::chrono::milliseconds(1)) : base::SpinBackoff();
  }

  void finish() noexcept {
    base::SpinBackoff backoff = device_backoff();
    while (failure_ == cuda::success && by_kernel() && base::load_acquire(words_.launch.done) != launch_id_)
      look_after_device(backoff);
    if (by_kernel()) {
      observe::count_copy(observe::CopyCounter::kernel);
      lease_.kernel_did_well();
      if (begins_ == Begin::in_time || begins_ == Begin::late) lease_.kernel_began(begins_ == Begin::late);
      return;
    }
    while (failure_ == cuda::success && copied_.load(std::memory_order_relaxed) < cut_.chunks) {
      pump();
      const bool waits_for_storage = !cut_.cached && released_.load(std::memory_order_relaxed) < cut_.chunks;
      backoff.wait(waits_for_storage ? base::WaitMode::sleep : base::WaitMode::spin);
      if (backoff.long_since()) is_healthy();
    }
    await_kernel();
    observe::count_copy(observe::CopyCounter::copy_engine);
  }

  // Nobody leaves while a kernel of theirs may still look at the words.
  void await_kernel() noexcept {
    base::Backoff lock_backoff;
    while (turning_.exchange(true, std::memory_order_acquire)) lock_backoff.wait();
    if (ending_ == Ending::revoked) count_revoked();
    base::SpinBackoff backoff;
    while (failure_ == cuda::success && ending_ == Ending::cut &&
           base::load_acquire(words_.launch.done) != launch_id_) {
      publish_nothing();
      backoff.wait();
      if (backoff.long_since()) is_healthy();
    }
    turning_.store(false, std::memory_order_release);
  }

  Outcome answer() const noexcept {
    if (failure_ != cuda::success) return gpu::as_outcome(failure_);
    return total_ == 0 && error_ != 0 ? Outcome::system_error(error_) : Outcome::bytes(total_);
  }

  const FileRange& range_;
  const ReadCut& cut_;
  staging::StagingLease& lease_;
  staging::StagingWords& words_;
  std::byte* const slots_;
  const cuda::DevicePtr target_;
  const std::uint32_t first_number_;
  std::uint32_t launch_id_ = 0;
  std::chrono::steady_clock::time_point launched_{};
  enum class Begin : std::uint8_t { of_no_interest, awaited, in_time, late } begins_ = Begin::of_no_interest;
  int failure_ = cuda::success;
  std::uint32_t issued_ = 0;

  // Of the thread that has set turning_: the caller, or the sentinel.
  static constexpr int most_looks_at_the_commit = 1000;
  enum class Ending : std::uint8_t { of_its_own, revoked, cut };
  std::atomic<bool> turning_{false};
  Ending ending_ = Ending::of_its_own;              // what the sentinel has made of the launch
  std::uint32_t next_nothing_ = 0;                  // the first chunk that the kernel has not been told to do without
  std::uint32_t seen_reading_ = ~std::uint32_t{0};  // the sentinel's: at its last look

  // Touched by the releasing thread alone, handed on with releasing_.
  bool ended_ = false;
  int error_ = 0;
  std::uint64_t total_ = 0;

  alignas(64) std::atomic<std::uint32_t> next_{1};
  std::atomic<std::uint32_t> end_{~std::uint32_t{0}};  // the first chunk known to have come short
  alignas(64) std::atomic<std::uint32_t> released_{0};
  std::atomic<bool> releasing_{false};
  alignas(64) std::atomic<std::uint32_t> copied_{0};
  std::atomic<std::uint32_t> kernels_;
  std::array<ChunkState, gpu::ticket_slots> states_;
};

}  // namespace

Outcome read_to_device(const FileRange& range, staging::StagingLease& lease, const Target& target,
                       CopyEngine engine) noexcept {
  const cuda::DevicePtr to = target.to;
  if (range.block > 1 && engine != CopyEngine::kernel) {
    if (const std::optional<Outcome> read = read_from_disk(range, lease, to)) return *read;
  }
  ReadShape shape{.at = range.at,
                  .length = range.length,
                  .block = range.block,
                  .unit = static_cast<std::uint32_t>(range.unit()),
                  .to = to,
                  .cached = seems_cached(range),
                  .by_kernel = false,
                  .others = workers::active_jobs(),
                  .workers_suffice = workers::workers_suffice(workers::active_jobs() + 1),
                  .workers = workers::worker_count(),
                  .extra_helpers = lease.tuner_for(range.length).extra_helpers()};
  // Memory of several allocations, of which one went under its registration: the copy engine's answer is an error, a
  // kernel's the end of the context.
  shape.by_kernel = engine != CopyEngine::engine && io::Sentinel::is_there() &&
                    (shape.cached || engine == CopyEngine::kernel) && can_be_gathered(range, to) &&
                    lease.device().can_gather() && lease.kernel_worth_trying(range.length) &&
                    (!shape.in_crowd() || lease.kernel_worth_trying_in_crowd()) &&
                    (target.is_one_allocation || gpu::contiguous_bytes(to, range.length) == range.length);
  const ReadCut cut = cut_read(shape);
  return DeviceRead(range, cut, lease, to, shape.by_kernel).run();
}

}  // namespace sluice::transfer
