// SPDX-License-Identifier: Apache-2.0
// Items are cut into chunks. Chunk n lies in place n % place_count of the staging buffer, and is given to the copy
// engine when the chunk before it has been written from there. The engine copies in the order of the chunks and tells
// by StagingWords::copied how many are there; so a writer only looks at that word. Each stream is written by one thread
// at a time, in the order of its chunks: what lies behind an error in an item is not written.
//
// The thread that calls run() gives the copy engine its work, writes like everybody else, and tells what is through.
#include "transfer/gathered_write.h"

#include <algorithm>
#include <cerrno>

#include "gpu/memory.h"
#include "io/file_io.h"
#include "observe/copy_counters.h"
#include "workers/active_count.h"

namespace sluice::transfer {

using base::FileOffset;
using base::Outcome;

namespace {

constexpr std::uint32_t page_bytes = 4096;
constexpr unsigned most_writers = 11;
// Of one call to the driver: writing begins when all of them have come.
constexpr std::uint32_t most_in_a_group = 1 << 20;
// Of one call to the file system. The caller's are short: it gives the device its work.
constexpr std::uint64_t most_at_once = 512 << 10;
constexpr std::uint64_t most_at_once_by_the_caller = 256 << 10;
constexpr std::uint32_t most_in_the_first_group = 256 << 10;
// In turns: what a helper writes at once, how many there are, and from which items on it pays.
constexpr std::uint64_t most_in_a_turn = 1 << 20;
constexpr unsigned helpers_in_turns = 2;
constexpr std::uint64_t smallest_in_turns = 256 << 10;
constexpr std::uint64_t smallest_run_in_turns = 2 << 20;
// The first turn: it is short, so that writing begins soon.
constexpr std::uint64_t most_in_the_first_turn = 512 << 10;
// Of the staging buffer, for each stream: bytes that a processor's cache still has are written sooner. Measured on an
// H200, one stream: 1.05 times the speed that the whole buffer gives.
constexpr std::uint32_t span_of_one = 3 * (512 << 10);

}  // namespace

// Buffered items of one file share a stream.
std::uint16_t GatheredWrite::stream_of(std::uint16_t item) noexcept {
  const WriteItem& wanted = items_[item];
  if (wanted.block == 1) {
    for (std::uint32_t i = 0; i < streams_count_; ++i) {
      const WriteItem& last = items_[streams_[i].last];
      if (last.block == 1 && last.file == wanted.file) return static_cast<std::uint16_t>(i);
    }
  }
  Stream& stream = streams_[streams_count_];
  stream.holder.store(Holder::nobody, std::memory_order_relaxed);
  stream.next.store(no_chunk, std::memory_order_relaxed);
  stream.last = none;
  stream.items = 0;
  return static_cast<std::uint16_t>(streams_count_++);
}

// Gives an item its chunks, behind those that have theirs.
void GatheredWrite::append(std::uint16_t item) noexcept {
  Progress& progress = progress_[item];
  progress.first = chunks_;
  progress.end = chunks_ + static_cast<std::uint32_t>((items_[item].length + slot_bytes_ - 1) / slot_bytes_);
  for (; chunks_ < progress.end; ++chunks_) item_of_[chunks_] = item;
  std::atomic<std::uint32_t>& next = streams_[progress.stream].next;
  if (next.load(std::memory_order_relaxed) == no_chunk) next.store(progress.first, std::memory_order_relaxed);
}

// The first items of all streams come first, then the second ones: the places of the staging buffer hold work for many
// helpers.
void GatheredWrite::cut() noexcept {
  std::uint64_t longest = 0;
  for (const WriteItem& item : items_) longest = std::max(longest, item.length);
  slot_bytes_ = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(largest_chunk, (longest + page_bytes - 1) / page_bytes * page_bytes));
  chunks_ = 0;
  streams_count_ = 0;
  std::array<std::uint32_t, most_write_items> order;
  const auto count = static_cast<std::uint32_t>(items_.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint16_t>(i);
    Progress& progress = progress_[i];
    progress.stream = stream_of(index);
    progress.next = none;
    progress.done = 0;
    progress.error = 0;
    progress.came_short = progress.notified = false;
    progress.is_through.store(false, std::memory_order_relaxed);
    Stream& stream = streams_[progress.stream];
    if (stream.last != none) progress_[stream.last].next = index;
    stream.last = index;
    order[i] = stream.items++ << 16U | i;
  }
  std::sort(order.begin(), order.begin() + count);
  for (std::uint32_t i = 0; i < count; ++i) append(static_cast<std::uint16_t>(order[i]));
  in_turns_ = can_take_turns();
  claimed_.store(streams_[0].next.load(std::memory_order_relaxed), std::memory_order_relaxed);
  const std::uint64_t span =
      in_turns_ ? staging::staging_bytes
                : std::min<std::uint64_t>(staging::staging_bytes, std::uint64_t{span_of_one} * streams_count_);
  slot_count_ = std::min({staging::most_slots, static_cast<std::uint32_t>(span / slot_bytes_), chunks_});
}

std::uint64_t GatheredWrite::begin_of(std::uint32_t chunk) const noexcept {
  return std::uint64_t{chunk - progress_[item_of_[chunk]].first} * slot_bytes_;
}

std::uint32_t GatheredWrite::length_of(std::uint32_t chunk) const noexcept {
  const std::uint64_t left = items_[item_of_[chunk]].length - begin_of(chunk);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(left, slot_bytes_));
}

std::span<std::byte> GatheredWrite::bytes_of(std::uint32_t chunk) const noexcept {
  return lease_->bytes().subspan(std::size_t{chunk % slot_count_} * slot_bytes_, length_of(chunk));
}

bool GatheredWrite::is_free(std::uint32_t chunk) const noexcept {
  return written_[chunk % slot_count_].load(std::memory_order_acquire) == chunk;
}

bool GatheredWrite::is_ready(std::uint32_t chunk) const noexcept {
  return chunk != no_chunk && base::load_acquire(lease_->words().copied) > chunk;
}

void GatheredWrite::run(std::span<WriteItem> items, staging::StagingLease& lease, Listener& listener,
                        Bond bond) noexcept {
  bond_ = bond;
  broken_.store(false, std::memory_order_relaxed);
  items_ = items;
  lease_ = &lease;
  cut();
  issued_ = 0;
  notified_ = 0;
  failure_ = cuda::success;
  lost_.store(false, std::memory_order_relaxed);
  through_.store(0, std::memory_order_relaxed);
  const workers::ActiveCount::Scope writer(workers::active_counts::writers_of(items.front().file));
  std::atomic_ref(lease.words().copied).store(0, std::memory_order_relaxed);
  for (std::uint32_t place = 0; place < slot_count_; ++place) {
    written_[place].store(place, std::memory_order_relaxed);
  }
  {
    const workers::JobScope scope(*this, in_turns_ ? helpers_in_turns : std::min(most_writers, streams_count_));
    ClaimedRun claimed;
    base::SpinBackoff backoff;
    while (notified_ < items_.size() && failure_ == cuda::success) {
      const bool copied = copy_more();
      const bool did_something = in_turns_ ? take_turn(claimed) : write_some(Holder::caller);
      notify(listener);
      if (copied || did_something) {
        backoff = {};
      } else {
        look_after_device(backoff);
      }
    }
  }
  notify(listener);  // what helpers have ended since
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (progress_[i].notified) continue;
    items_[i].outcome = Outcome::bytes(progress_[i].done);
    items_[i].remains = true;
  }
}

// A helper stays while there is something to claim, or a stream that no other helper has.
void GatheredWrite::run_helper(unsigned /*number*/) noexcept {
  ClaimedRun claimed;
  base::SpinBackoff backoff;
  while (!lost_.load(std::memory_order_acquire)) {
    if (in_turns_ ? take_turn(claimed) : write_some(Holder::cursor)) {
      backoff = {};
    } else if (in_turns_ ? claimed.first != no_chunk : some_may_want_a_helper()) {
      backoff.wait();
    } else {
      return;
    }
  }
}

bool GatheredWrite::some_may_want_a_helper() const noexcept {
  return std::any_of(streams_.begin(), streams_.begin() + streams_count_, [](const Stream& stream) {
    return stream.next.load(std::memory_order_relaxed) != no_chunk &&
           stream.holder.load(std::memory_order_relaxed) != Holder::cursor;
  });
}

// One stream's turn: all that is ready of it, or one chunk, since nobody else gives the device its work.
bool GatheredWrite::write_some(Holder as) noexcept {
  for (std::uint32_t i = 0; i < streams_count_; ++i) {
    Stream& stream = streams_[i];
    if (!is_ready(stream.next.load(std::memory_order_relaxed))) continue;
    Holder nobody = Holder::nobody;
    // Acquire: the stream as its last holder left it.
    if (!stream.holder.compare_exchange_strong(nobody, as, std::memory_order_acquire)) continue;
    bool wrote = false;
    for (std::uint32_t chunk = stream.next.load(std::memory_order_relaxed); is_ready(chunk);
         chunk = stream.next.load(std::memory_order_relaxed)) {
      stream.next.store(write_what_has_come(chunk, as), std::memory_order_relaxed);
      wrote = true;
      if (as == Holder::caller || lost_.load(std::memory_order_relaxed)) break;
    }
    stream.holder.store(Holder::nobody, std::memory_order_release);
    if (wrote) return true;
  }
  return false;
}

std::uint32_t GatheredWrite::chunk_behind(std::uint32_t chunk) const noexcept {
  const Progress& progress = progress_[item_of_[chunk]];
  if (chunk + 1 < progress.end) return chunk + 1;
  return progress.next == none ? no_chunk : progress_[progress.next].first;
}

FileOffset GatheredWrite::place_of(std::uint32_t chunk) const noexcept {
  return {items_[item_of_[chunk]].at.value + begin_of(chunk)};
}

// Is the chunk of a buffered file, behind `length` bytes of it that begin with `first`?
bool GatheredWrite::goes_with(std::uint32_t first, std::uint64_t length, std::uint32_t chunk) const noexcept {
  if (chunk == no_chunk) return false;
  const WriteItem& item = items_[item_of_[chunk]];
  return item.block == 1 && item.fd == items_[item_of_[first]].fd &&
         place_of(chunk).value == place_of(first).value + length;
}

bool GatheredWrite::can_take_turns() const noexcept {
  std::uint64_t bytes = 0;
  for (const WriteItem& item : items_) bytes += item.length;
  const auto is_large = [](const WriteItem& item) {
    return item.block == 1 && item.place.fd >= 0 && item.length >= smallest_in_turns;
  };
  const auto is_in_cache = [](const WriteItem& item) { return io::is_cached(item.fd, item.at, item.length); };
  return streams_count_ == 1 && workers::worker_count() > 0 && bytes >= smallest_run_in_turns &&
         std::all_of(items_.begin(), items_.end(), is_large) && is_in_cache(items_.front()) &&
         is_in_cache(items_.back());
}

// Has all of it come? Copies come in the order of the chunks.
bool GatheredWrite::is_group_ready(const ClaimedRun& claimed) const noexcept {
  std::uint32_t last = claimed.first;
  for (std::uint32_t chunk = last; chunk != claimed.end; chunk = chunk_behind(chunk)) last = chunk;
  return is_ready(last);
}

// From this chunk on.
GatheredWrite::ChunkRun GatheredWrite::group_at(std::uint32_t first) const noexcept {
  const std::uint64_t most = first == 0 ? most_in_the_first_turn : most_in_a_turn;
  ChunkRun run_of_chunks{first, 0};
  std::size_t count = 0;
  do {
    run_of_chunks.length += length_of(run_of_chunks.end);
    run_of_chunks.end = chunk_behind(run_of_chunks.end);
  } while (++count < io::most_spans && goes_with(first, run_of_chunks.length, run_of_chunks.end) &&
           run_of_chunks.length + length_of(run_of_chunks.end) <= most);
  return run_of_chunks;
}

// False: nothing is left.
bool GatheredWrite::claim(ClaimedRun& claimed) noexcept {
  ChunkRun run_of_chunks{};
  std::uint32_t first = claimed_.load(std::memory_order_relaxed);
  do {
    if (first == no_chunk) return false;
    run_of_chunks = group_at(first);
  } while (!claimed_.compare_exchange_weak(first, run_of_chunks.end, std::memory_order_relaxed));
  const io::PrefetchRange place = items_[item_of_[first]].place;
  claimed = {
      first, run_of_chunks.end,
      io::Prefetch::of_write_range(place, place_of(first), run_of_chunks.length, io::Prefetch::Step::of_four_pages)};
  return true;
}

// Writes what this helper has claimed when the stream has come there, claims the next when it has none, and prefetches
// otherwise. False: it could do nothing just now.
bool GatheredWrite::take_turn(ClaimedRun& claimed) noexcept {
  if (claimed.first == no_chunk && !claim(claimed)) return false;
  std::atomic<std::uint32_t>& next = streams_[0].next;
  // Acquire: the stream as the helper before has left it.
  if (next.load(std::memory_order_acquire) != claimed.first || !is_group_ready(claimed)) return claimed.prefetch.step();
  write(claimed.first, claimed.end);
  next.store(claimed.end, std::memory_order_release);
  claimed.first = no_chunk;
  return true;
}

// By the stream's holder: the chunk, and with it those that go on where it ends. Answers the next one.
std::uint32_t GatheredWrite::write_what_has_come(std::uint32_t first, Holder as) noexcept {
  const std::uint64_t most = as == Holder::caller ? most_at_once_by_the_caller : most_at_once;
  std::size_t count = 0;
  std::uint64_t length = 0;
  std::uint32_t end = first;
  do {
    length += length_of(end);
    end = chunk_behind(end);
  } while (++count < io::most_spans && is_ready(end) && goes_with(first, length, end) &&
           length + length_of(end) <= most);
  write(first, end);
  return end;
}

// Chunks that lie one behind the other in the file, at most most_spans.
void GatheredWrite::write(std::uint32_t first, std::uint32_t end) noexcept {
  std::array<std::span<const std::byte>, io::most_spans> spans;
  std::size_t count = 0;
  for (std::uint32_t chunk = first; chunk != end; chunk = chunk_behind(chunk)) spans[count++] = bytes_of(chunk);
  Progress& of_first = progress_[item_of_[first]];
  if (is_broken()) of_first.came_short = true;
  Outcome together = Outcome::bytes(0);
  if (count > 1 && !of_first.came_short) {
    together = io::write_together(items_[item_of_[first]].fd, std::span(spans).first(count), place_of(first));
  }
  if (!together.ok()) {
    of_first.came_short = true;
    of_first.error = together.error();
  }
  std::uint64_t taken = together.count();
  for (std::uint32_t chunk = first; chunk != end;) {
    const std::uint32_t next = chunk_behind(chunk);
    const std::uint64_t of_it = std::min<std::uint64_t>(taken, length_of(chunk));
    Progress& progress = progress_[item_of_[chunk]];
    progress.done += of_it;
    if (of_it < length_of(chunk)) {
      if (is_broken()) progress.came_short = true;
      write_rest_of(chunk, of_it);
    }
    if (progress.came_short && bond_ == Bond::one_transfer) broken_.store(true, std::memory_order_relaxed);
    taken -= of_it;
    is_written(chunk);
    chunk = next;
  }
}

void GatheredWrite::write_rest_of(std::uint32_t chunk, std::uint64_t taken) noexcept {
  const std::uint16_t index = item_of_[chunk];
  Progress& progress = progress_[index];
  const WriteItem& item = items_[index];
  if (!progress.came_short) {
    const std::span<std::byte> bytes = bytes_of(chunk).subspan(taken);
    const FileOffset at{place_of(chunk).value + taken};
    Outcome written = io::write_span(item.fd, bytes, at, item.block);
    // The file system may want more of O_DIRECT than it told, and the descriptor may have got that flag meanwhile.
    if (written.error() == EINVAL) written = item.buffered->write(bytes, at);
    progress.done += written.count();
    progress.came_short = written.count() < bytes.size();
    if (!written.ok()) progress.error = written.error();
  }
}

void GatheredWrite::is_written(std::uint32_t chunk) noexcept {
  Progress& progress = progress_[item_of_[chunk]];
  // Release: the next copy into this place comes after the write from it; the caller tells of bytes that are written.
  written_[chunk % slot_count_].store(chunk + slot_count_, std::memory_order_release);
  if (chunk + 1 < progress.end) return;
  progress.is_through.store(true, std::memory_order_release);
  through_.fetch_add(1, std::memory_order_release);
}

// True when there was something to give to the copy engine.
bool GatheredWrite::copy_more() noexcept {
  const std::uint32_t before = issued_;
  while (failure_ == cuda::success) {
    const std::uint32_t most = issued_ == 0 ? most_in_the_first_group : most_in_a_group;
    std::uint32_t end = issued_;
    for (std::uint32_t bytes = 0; end < chunks_ && is_free(end) && bytes < most; ++end) bytes += length_of(end);
    if (end == issued_) break;
    int result = copy_group(end);
    if (result == cuda::success) result = lease_->device().mark(&lease_->words().copied, issued_);
    if (result != cuda::success) give_up(result);
  }
  return issued_ > before;
}

// Neighbours on both sides in one copy; many copies in one call where the driver has it.
int GatheredWrite::copy_group(std::uint32_t end) noexcept {
  std::array<gpu::CopyBack, 64> copies;
  int result = cuda::success;
  while (issued_ < end && result == cuda::success) {
    std::size_t count = 0;
    for (; issued_ < end; ++issued_) {
      const std::span<std::byte> to = bytes_of(issued_);
      const cuda::DevicePtr from = items_[item_of_[issued_]].from + begin_of(issued_);
      if (count > 0 && copies[count - 1].from + copies[count - 1].size == from &&
          copies[count - 1].to + copies[count - 1].size == to.data()) {
        copies[count - 1].size += to.size();
        continue;
      }
      if (count == copies.size()) break;
      copies[count++] = {to.data(), from, to.size()};
    }
    result = lease_->device().copy_from_device(std::span(copies).first(count));
  }
  return result;
}

void GatheredWrite::notify(Listener& listener) noexcept {
  if (notified_ == through_.load(std::memory_order_acquire)) return;
  std::array<std::uint16_t, most_write_items> ended;
  std::size_t count = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Progress& progress = progress_[i];
    if (progress.notified || !progress.is_through.load(std::memory_order_acquire)) continue;
    progress.notified = true;
    const bool nothing = progress.done == 0 && progress.error != 0;
    items_[i].outcome = nothing ? Outcome::system_error(progress.error) : Outcome::bytes(progress.done);
    items_[i].remains = false;
    ended[count++] = static_cast<std::uint16_t>(i);
  }
  if (count == 0) return;
  notified_ += count;
  // Before anybody hears of them, and may look at the counters.
  const bool at_once = lease_->device().can_copy_many();
  observe::count_copy(at_once ? observe::CopyCounter::many_copies : observe::CopyCounter::copy_engine,
                      bond_ == Bond::none ? count : std::size_t{notified_ == count});
  listener.through(std::span(ended).first(count));
}

void GatheredWrite::look_after_device(base::SpinBackoff& backoff) noexcept {
  backoff.wait();
  if (!backoff.long_since() || base::load_acquire(lease_->words().copied) >= issued_) return;
  if (const int result = lease_->device().health(); result != cuda::success) give_up(result);
}

// What has not come by now does not come any more.
void GatheredWrite::give_up(int result) noexcept {
  failure_ = result;
  lost_.store(true, std::memory_order_release);
  lease_->give_up();
}

}  // namespace sluice::transfer
