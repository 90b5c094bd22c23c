// One request, cut into chunks, which are read into places of the ring (staging/hand.h). Chunks are read in any order
// and released in file order, so nothing behind the end of the file, or behind an error, ever reaches the device.
//
//   next_        the first chunk that nobody has claimed
//   released_    chunks before it hold their final bytes; those behind may be half read
//   kernels_     chunks before it are the kernel's, all others the copy engine's
//   copied_      of these, chunks before it have left the ring (the kernel tells by RingWords::drained)
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
#include "base/pause.h"
#include "gpu/memory.h"
#include "io/file_io.h"
#include "io/sentinel.h"
#include "observe/carriers.h"
#include "staging/hand.h"
#include "transfer/disk_read.h"
#include "transfer/read_cut.h"
#include "workers/lanes.h"
#include "workers/naps.h"

namespace sluice::transfer {

using base::FileOffset;
using base::Outcome;

namespace {

// Beside other requests of ours a kernel takes its time to begin, and the copy engine gets little of a link that they
// fill: it is worth as long as its bytes would take.
std::chrono::microseconds patience_with_kernel(std::uint64_t bytes) noexcept {
  using std::chrono::microseconds;
  constexpr std::uint64_t bytes_a_microsecond = 8192;
  if (workers::offers_now() <= 1) return staging::patience_with_kernel_of_one(bytes);
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
  // Some kernels have nothing behind the end of a file, either, and say so. Who has not asked where that is asks now.
  const std::uint64_t there = std::min(end, range.now.size());
  return there < known_end && (there <= range.at.value || is_cached_at(range.fd, there - 1));
}

constinit thread_local workers::Naps naps;

class DeviceRead final : public workers::Work, public io::Sentinel::Charge {
 public:
  DeviceRead(const FileRange& range, const ReadCut& cut, staging::RingLoan& ring, cuda::DevicePtr to,
             bool by_kernel) noexcept
      : range_(range),
        cut_(cut),
        ring_(ring),
        words_(ring.words()),
        places_(ring.bytes().data() + cut.shift),
        target_(to - cut.skip),
        first_number_(ring.numbers(cut.chunks)),
        kernels_(by_kernel ? all_of_them : 0) {}

  Outcome run() noexcept {
    std::atomic_ref(words_.copied).store(0, std::memory_order_relaxed);
    {
      const workers::Offer offer(*this, cut_.hands);
      if (by_kernel()) launch();
      std::optional<io::Sentinel::Watch> watch;
      if (by_kernel() && !watch.emplace(*this)) call_off();
      const auto began = std::chrono::steady_clock::now();
      // The first chunk is the caller's: calling a launch off needs its ticket (see call_off).
      staging::Hand hand(cut_.places, 0);
      for (std::uint32_t chunk = 0; chunk < cut_.chunks; chunk = next_.fetch_add(1, std::memory_order_relaxed)) {
        wait_for_room(hand, chunk);
        if (is_lost()) break;
        read(hand, chunk);
        release();
        if (by_kernel()) {
          watch_for_begin();
        } else {
          pump();
        }
      }
      if (cut_.tells && by_kernel() && !comes_short() && workers::offers_now() == 1) {
        ring_.crew_of(range_.length)
            .learn(std::chrono::steady_clock::now() - began, range_.length, cut_.hands < workers::lane_count());
      }
      finish();
    }
    return answer();
  }

  void lend_a_hand(unsigned number) noexcept override {
    staging::Hand hand(cut_.places, number);
    bool may_nap = cut_.hands_nap && naps.are_allowed();
    for (;;) {
      while (may_nap && is_ahead(hand)) may_nap = naps.take();
      const std::uint32_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= cut_.chunks) return;
      base::Patience patience;
      while (!has_room(hand, chunk)) patience.wait();
      if (is_lost()) return;
      read(hand, chunk);
      release();
    }
  }

 private:
  struct Slot {
    std::atomic<std::uint32_t> begun{0};  // the number of the chunk that somebody reads
    std::atomic<std::uint32_t> ready{0};  // of the one that has been read
    std::uint32_t place = 0;              // where it lies
    std::uint32_t length = 0;             // of what goes on to the device; final once released
    std::int64_t outcome = 0;
  };

  static constexpr std::uint32_t all_of_them = ~std::uint32_t{0};  // as a value of kernels_
  bool by_kernel() const noexcept { return kernels_.load(std::memory_order_acquire) == all_of_them; }
  std::uint32_t number(std::uint32_t chunk) const noexcept { return first_number_ + chunk; }
  std::uint32_t into(std::uint32_t chunk) const noexcept { return chunk == 0 ? cut_.skip : 0; }
  // Of a chunk that has been read, or is being read by this thread.
  Slot& slot(std::uint32_t chunk) noexcept { return slots_[chunk % gpu::ticket_slots]; }
  const Slot& slot(std::uint32_t chunk) const noexcept { return slots_[chunk % gpu::ticket_slots]; }
  std::byte* place(std::uint32_t chunk) const noexcept {
    return places_ + std::size_t{slot(chunk).place} * cut_.chunk_bytes;
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
    return is_drained(chunk);
  }
  // By the kernel.
  bool is_drained(std::uint32_t chunk) const noexcept {
    // The last one of this slot, perhaps of an earlier request.
    const std::uint32_t last = base::look(words_.drained[chunk % gpu::ticket_slots]) - first_number_;
    return last < cut_.chunks && last >= chunk;
  }
  bool has_room(const staging::Hand& hand, std::uint32_t chunk) const noexcept {
    if (chunk >= gpu::ticket_slots && !has_left(chunk - gpu::ticket_slots)) return false;
    const std::optional<std::uint32_t> before = hand.in_the_way_of(chunk);
    return !before || has_left(*before);
  }

  // Its places are full, and so much is unclaimed that the request will not end before the next nap does.
  bool is_ahead(const staging::Hand& hand) const noexcept {
    const std::optional<std::uint32_t> before = hand.in_the_way();
    return before && by_kernel() && !comes_short() &&
           next_.load(std::memory_order_relaxed) + cut_.places.count <= cut_.chunks && !has_left(*before);
  }

  // The caller's.
  void wait_for_room(const staging::Hand& hand, std::uint32_t chunk) noexcept {
    if (has_room(hand, chunk)) return;
    base::Patience patience = patience_with_device();
    do {
      look_after_device(patience);
    } while (!has_room(hand, chunk));
  }

  void read(staging::Hand& hand, std::uint32_t chunk) noexcept {
    Slot& slot = this->slot(chunk);
    slot.place = hand.place_for(chunk);
    hand.has_read(chunk);
    slot.outcome = 0;
    slot.begun.store(number(chunk), std::memory_order_relaxed);
    if (chunk < end_.load(std::memory_order_relaxed)) {
      // Whole blocks, where O_DIRECT wants them; from the start of the range, where it does not.
      const std::uint32_t ahead = range_.block > 1 ? 0 : into(chunk);
      const std::uint64_t size = std::uint64_t{into(chunk)} + wanted(chunk) - ahead;
      const std::uint64_t whole = (size + range_.block - 1) / range_.block * range_.block;
      const FileOffset at{range_.at.value - cut_.skip + std::uint64_t{chunk} * cut_.chunk_bytes + ahead};
      const std::span<std::byte> into_place{place(chunk) + ahead, whole};
      Outcome got = io::read_span(range_.fd, into_place, at, range_.block, range_.file_size);
      if (got.error() == EINVAL) got = range_.buffered.read(into_place, at);
      const std::uint64_t before = into(chunk) - ahead;
      slot.outcome = got.ok() ? static_cast<std::int64_t>(
                                    std::min<std::uint64_t>(got.count() - std::min(got.count(), before), wanted(chunk)))
                              : got.value();
      // Nothing has been released yet. A kernel was launched just now, and takes as long to begin.
      if (chunk == 0 && !range_.now.finds_the_file()) slot.outcome = -EBADF;
      if (slot.outcome < static_cast<std::int64_t>(wanted(chunk))) ends_with(chunk);
    }
    slot.ready.store(number(chunk), std::memory_order_seq_cst);
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
    return chunk < cut_.chunks && slot(chunk).ready.load(std::memory_order_seq_cst) == number(chunk);
  }

  // One thread releases at a time; whoever finds it busy leaves its chunk to it. Nobody's chunk is forgotten: it was
  // made ready before the flag was looked at, and the releasing thread looks again after it has taken its flag down.
  void release() noexcept {
    while (next_is_ready() && !releasing_.exchange(true, std::memory_order_seq_cst)) {
      while (next_is_ready()) release_next();
      releasing_.store(false, std::memory_order_seq_cst);
    }
  }

  void release_next() noexcept {
    const std::uint32_t chunk = released_.load(std::memory_order_relaxed);
    Slot& slot = this->slot(chunk);
    slot.length = 0;
    if (!ended_) {
      if (slot.outcome > 0) slot.length = static_cast<std::uint32_t>(slot.outcome);
      if (slot.outcome < 0) error_ = static_cast<int>(-slot.outcome);
      total_ += slot.length;
      ended_ = slot.length < wanted(chunk);
    }
    // The kernel's turn. The bytes were written by a thread that made the chunk ready after them; what is read here in
    // that order, the device reads in that order.
    if (by_kernel()) publish(chunk, gpu::ticket_of(number(chunk), slot.length, slot.place));
    released_.store(chunk + 1, std::memory_order_release);
  }

  void publish(std::uint32_t chunk, std::uint64_t value) noexcept {
    const std::atomic_ref ticket(words_.tickets[chunk % gpu::ticket_slots].value);
    if (chunk > 0) return ticket.store(value, std::memory_order_release);
    std::uint64_t none = 0;  // unless a call_off() came between
    ticket.compare_exchange_strong(none, value, std::memory_order_release, std::memory_order_relaxed);
  }

  void launch() noexcept {
    serial_ = ring_.next_serial();
    std::atomic_ref(words_.tickets[0].value).store(0, std::memory_order_release);  // may still say called_off
    const int result = ring_.device().launch({.places = places_,
                                              .target = target_,
                                              .tickets = words_.tickets.data(),
                                              .drained = words_.drained.data(),
                                              .words = &words_.launch,
                                              .chunk_bytes = cut_.chunk_bytes,
                                              .stride = cut_.chunk_bytes,
                                              .skip = cut_.skip,
                                              .chunks = cut_.chunks,
                                              .silent_up_to = cut_.places.enough_for(),
                                              .first_number = first_number_,
                                              .serial = serial_,
                                              .most_blocks = blocks_for(cut_.chunk_bytes, workers::offers_now())});
    launched_ = std::chrono::steady_clock::now();
    if (result != cuda::success) kernels_.store(0, std::memory_order_release);
    begins_ = cut_.in_crowd ? Begin::awaited : Begin::of_no_interest;
  }

  // In a crowd: when does the kernel begin?
  void watch_for_begin() noexcept {
    if (begins_ != Begin::awaited) return;
    if (base::look(words_.launch.begun) == serial_) {
      begins_ = Begin::in_time;
    } else if (std::chrono::steady_clock::now() - launched_ > late_in_crowd) {
      begins_ = Begin::late;
    }
  }

  // Takes the work back from a kernel that has not begun. False: it has.
  //
  // Chunk 0's ticket is exchanged, not overwritten: when its slot has been used again the kernel has begun, and needs
  // what is there. Otherwise either the first block reads `called_off`, or this thread reads `begun`; a full
  // fence on both sides excludes that neither does. Afterwards nobody writes a ticket into slot 0 while the launch is
  // pending: a later chunk gets that slot only after the copy engine has emptied it, which is after by_kernel_ was
  // taken back.
  bool call_off() noexcept {
    if (turning_.exchange(true, std::memory_order_acquire)) return false;  // the sentinel is at it
    bool off = by_kernel() && mark_off();
    if (off && base::look(words_.launch.begun) == serial_) {
      base::Patience patience;
      while (base::look(words_.launch.verdict) >> 2U != serial_ && (!patience.long_since() || is_healthy()))
        patience.wait();
      off = has_verdict(Verdict::off);
    }
    if (off) {
      kernels_.store(0, std::memory_order_release);
      tell_that_it_is_off();
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
    } while (!ticket.compare_exchange_weak(seen, gpu::called_off, std::memory_order_seq_cst));
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return true;
  }

  enum class Verdict : std::uint32_t { go = 1, off = 2 };
  bool has_verdict(Verdict verdict) const noexcept {
    return base::look(words_.launch.verdict) == (serial_ << 2U | static_cast<std::uint32_t>(verdict));
  }

  // The caller's.
  void tell_that_it_is_off() noexcept {
    ring_.called_off(serial_);
    observe::count_carrier(observe::CarriedBy::kernel_called_off);
  }

  // By the sentinel. Whoever reads the chunk that the kernel waits for has been at it for a while, in a storage.
  void look_in() noexcept override {
    const std::uint32_t chunk = released_.load(std::memory_order_acquire);
    const bool is_being_read = by_kernel() && chunk < cut_.chunks &&
                               slot(chunk).begun.load(std::memory_order_relaxed) == number(chunk) &&
                               slot(chunk).ready.load(std::memory_order_relaxed) != number(chunk);
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
      if (marked && base::look(words_.launch.begun) == serial_) {
        await_verdict();
        off = has_verdict(Verdict::off);
      }
      if (off) {
        ending_ = Ending::called_off;
        kernels_.store(0, std::memory_order_release);
      } else if (first > 0 && (!marked || has_verdict(Verdict::go))) {
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
  void await_verdict() const noexcept {
    base::Backoff backoff;
    for (int look = 0; look < most_looks_at_a_verdict && !has_verdict(Verdict::go) && !has_verdict(Verdict::off);
         ++look) {
      backoff.wait();
    }
  }

  // As many as there is room for; a slot is free when the kernel is done with what it had there.
  void publish_nothing() noexcept {
    for (; next_nothing_ < cut_.chunks; ++next_nothing_) {
      const std::uint32_t slots = gpu::ticket_slots;
      if (next_nothing_ >= slots && !is_drained(next_nothing_ - slots)) return;
      const std::atomic_ref ticket(words_.tickets[next_nothing_ % slots].value);
      ticket.store(gpu::ticket_of(number(next_nothing_), 0, 0), std::memory_order_release);
    }
  }

  bool is_healthy() noexcept {
    const int result = ring_.device().health();
    if (result == cuda::success) return true;
    give_up(result);
    return false;
  }

  // The device is lost to this context. Whoever waits for a place is let go, and leaves it as it is: what lies there
  // may not have been released yet.
  void give_up(int result) noexcept {
    failure_ = result;
    ring_.condemn();
    ends_with(0);
    copied_.store(lost, std::memory_order_release);
  }

  void look_after_device(base::Patience& patience) noexcept {
    patience.wait();
    if (failure_ != cuda::success) return;
    if (!by_kernel()) {
      pump();
    } else if (base::look(words_.launch.begun) != serial_) {
      watch_for_begin();
      if (std::chrono::steady_clock::now() - launched_ > patience_with_kernel(range_.length)) call_off();
    } else if (patience.long_since()) {
      is_healthy();
    }
  }

  // Gives the copy engine what has been released, neighbouring chunks in one copy, and sees how far it is.
  void pump() noexcept {
    if (failure_ != cuda::success) return;
    const std::uint32_t first = kernels_.load(std::memory_order_acquire);
    issued_ = std::max(issued_, first);
    copied_.store(base::look(words_.copied), std::memory_order_release);
    const std::uint32_t ready = released_.load(std::memory_order_acquire);
    const bool idle = cut_.less_when_idle && std::max(first, copied_.load(std::memory_order_relaxed)) == issued_;
    if (issued_ < ready && (idle || ready - issued_ >= cut_.chunks_a_copy || ready == cut_.chunks)) {
      int result = cuda::success;
      while (issued_ < ready && result == cuda::success) result = copy_some(ready);
      if (result == cuda::success) result = ring_.device().mark(&words_.copied, issued_);
      if (result != cuda::success) {
        ring_.device().finish_copies();
        give_up(result);
        return;
      }
    }
  }

  int copy_some(std::uint32_t ready) noexcept {
    const std::uint32_t first = issued_;
    const std::byte* const from = place(first) + into(first);
    std::size_t size = 0;
    do {
      const std::uint32_t length = slot(issued_).length;
      size += length;
      ++issued_;
      if (into(issued_ - 1) + length < cut_.chunk_bytes) break;
    } while (issued_ < ready && place(issued_) == place(issued_ - 1) + cut_.chunk_bytes);
    if (size == 0) return cuda::success;
    return ring_.device().copy_to_device(target_ + std::uint64_t{first} * cut_.chunk_bytes + into(first), {from, size});
  }

  // In a crowd the copies of all stand in one line.
  base::Patience patience_with_device() const noexcept {
    return cut_.in_crowd && !by_kernel() ? base::Patience(std::chrono::milliseconds(1)) : base::Patience();
  }

  void finish() noexcept {
    base::Patience patience = patience_with_device();
    while (failure_ == cuda::success && by_kernel() && base::look(words_.launch.done) != serial_)
      look_after_device(patience);
    if (by_kernel()) {
      observe::count_carrier(observe::CarriedBy::kernel);
      ring_.kernel_did_well();
      if (begins_ == Begin::in_time || begins_ == Begin::late) ring_.kernel_began(begins_ == Begin::late);
      return;
    }
    while (failure_ == cuda::success && copied_.load(std::memory_order_relaxed) < cut_.chunks) {
      pump();
      const bool waits_for_storage = !cut_.cached && released_.load(std::memory_order_relaxed) < cut_.chunks;
      patience.wait(waits_for_storage ? base::Waiting::asleep : base::Waiting::busily);
      if (patience.long_since()) is_healthy();
    }
    await_kernel();
    observe::count_carrier(observe::CarriedBy::copy_engine);
  }

  // Nobody leaves while a kernel of theirs may still look at the words.
  void await_kernel() noexcept {
    base::Backoff backoff;
    while (turning_.exchange(true, std::memory_order_acquire)) backoff.wait();
    if (ending_ == Ending::called_off) tell_that_it_is_off();
    base::Patience patience;
    while (failure_ == cuda::success && ending_ == Ending::cut && base::look(words_.launch.done) != serial_) {
      publish_nothing();
      patience.wait();
      if (patience.long_since()) is_healthy();
    }
    turning_.store(false, std::memory_order_release);
  }

  Outcome answer() const noexcept {
    if (failure_ != cuda::success) return gpu::as_outcome(failure_);
    return total_ == 0 && error_ != 0 ? Outcome::system_error(error_) : Outcome::bytes(total_);
  }

  const FileRange& range_;
  const ReadCut& cut_;
  staging::RingLoan& ring_;
  staging::RingWords& words_;
  std::byte* const places_;
  const cuda::DevicePtr target_;
  const std::uint32_t first_number_;
  std::uint32_t serial_ = 0;
  std::chrono::steady_clock::time_point launched_{};
  enum class Begin : std::uint8_t { of_no_interest, awaited, in_time, late } begins_ = Begin::of_no_interest;
  int failure_ = cuda::success;
  std::uint32_t issued_ = 0;

  // Of whoever has set turning_: the caller, or the sentinel.
  static constexpr int most_looks_at_a_verdict = 1000;
  enum class Ending : std::uint8_t { of_its_own, called_off, cut };
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
  std::array<Slot, gpu::ticket_slots> slots_;
};

}  // namespace

Outcome read_to_device(const FileRange& range, staging::RingLoan& ring, const Target& target,
                       Carrier carrier) noexcept {
  const cuda::DevicePtr to = target.to;
  if (range.block > 1 && carrier != Carrier::kernel) {
    if (const std::optional<Outcome> read = read_from_disk(range, ring, to)) return *read;
  }
  ReadShape shape{.at = range.at,
                  .length = range.length,
                  .block = range.block,
                  .unit = static_cast<std::uint32_t>(range.unit()),
                  .to = to,
                  .cached = seems_cached(range),
                  .by_kernel = false,
                  .others = workers::offers_now(),
                  .lanes_go_round = workers::lanes_go_round(workers::offers_now() + 1),
                  .lanes = workers::lane_count(),
                  .beyond_usual = ring.crew_of(range.length).beyond_usual()};
  // Memory of several allocations, of which one went under its registration: the copy engine's answer is an error, a
  // kernel's the end of the context.
  shape.by_kernel = carrier != Carrier::engine && io::Sentinel::is_there() &&
                    (shape.cached || carrier == Carrier::kernel) && can_be_gathered(range, to) &&
                    ring.device().can_gather() && ring.kernel_worth_trying(range.length) &&
                    (!shape.in_crowd() || ring.kernel_worth_trying_in_crowd()) &&
                    (target.is_one_allocation || gpu::contiguous_bytes(to, range.length) == range.length);
  const ReadCut cut = cut_read(shape);
  return DeviceRead(range, cut, ring, to, shape.by_kernel).run();
}

}  // namespace sluice::transfer
