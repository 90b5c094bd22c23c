// SPDX-License-Identifier: Apache-2.0
// Items are cut into chunks, which are claimed in order and read in any order. Those of one item are released in
// its file's order, so nothing behind an end of a file, or behind an error, reaches the device; items do not wait for
// each other, unless they are one transfer: then there are no heads, so that places come free in the order of release.
// Places and words are those of transfer/device_read.cpp.
//
//   next_     the first chunk that nobody has claimed
//   copied_   chunks before it have left the staging buffer by the copy engine (the kernel tells by
//   StagingWords::completed)
//
// The thread that calls run() launches, reads like everybody else, and looks after the device.
#include "transfer/scattered_read.h"

#include <algorithm>
#include <cerrno>

#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "io/file_io.h"
#include "observe/copy_counters.h"

namespace sluice::transfer {

using base::FileOffset;
using base::Outcome;

namespace {

constexpr std::uint32_t smallest_chunk = 4096;
constexpr std::uint32_t usual_chunk = 16 << 10;

// Kernels of our own end soon.
std::chrono::microseconds launch_start_timeout(std::uint64_t bytes) noexcept {
  return workers::active_jobs() > 1 ? std::chrono::microseconds(3000) : staging::lone_kernel_start_timeout(bytes);
}

std::uint32_t chunks_in(std::uint64_t length, std::uint32_t size) noexcept {
  return static_cast<std::uint32_t>((length + size - 1) / size);
}

}  // namespace

std::byte* ScatteredRead::bytes_of(std::uint32_t chunk) const noexcept {
  return slots_ + std::size_t{state(chunk).slot} * stride_ + target_of(chunk) % 16;
}

std::uint32_t ScatteredRead::wanted(std::uint32_t chunk) const noexcept {
  const std::uint64_t left = items_[item_of_[chunk]].length - begin_of(chunk);
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(left, chunk < heads_ ? staging::first_chunk_bytes : chunk_bytes_));
}

// As many items as one launch takes, and the size of their chunks: small ones start the device sooner, large ones
// cost less. Answers how many items these are.
std::size_t ScatteredRead::cut(std::span<ReadItem> items) noexcept {
  std::size_t count = 0;
  std::uint32_t large_chunks = 0;
  std::uint32_t usual_chunks = 0;
  std::uint64_t longest = 0;
  for (; count < items.size(); ++count) {
    const std::uint64_t length = items[count].length;
    if (large_chunks + chunks_in(length, largest_chunk) > most_chunks) break;
    large_chunks += chunks_in(length, largest_chunk);
    usual_chunks += chunks_in(length, usual_chunk);
    longest = std::max(longest, length);
  }
  const std::uint32_t whole = chunks_in(longest, smallest_chunk) * smallest_chunk;
  chunk_bytes_ = std::min(usual_chunks <= most_chunks ? usual_chunk : largest_chunk, whole);
  items_ = items.first(count);
  number_chunks();
  return count;
}

// Heads first, then what is left of each item.
void ScatteredRead::number_chunks() noexcept {
  heads_ = 0;
  if (chunk_bytes_ > staging::first_chunk_bytes && !in_one_row_) {
    for (std::size_t i = 0; i < items_.size() && heads_ < most_heads; ++i) {
      if (items_[i].length > staging::first_chunk_bytes) item_of_[heads_++] = static_cast<std::uint16_t>(i);
    }
  }
  chunks_ = heads_;
  std::uint32_t head = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Progress& progress = progress_[i];
    const bool has_head = head < heads_ && item_of_[head] == i;
    progress.first = chunks_;
    progress.begin = has_head ? head++ : chunks_;
    progress.head_bytes = has_head ? staging::first_chunk_bytes : 0;
    progress.end = chunks_ + chunks_in(items_[i].length - progress.head_bytes, chunk_bytes_);
    progress.row_end = progress.end;
    progress.comes_short.store(progress.end, std::memory_order_relaxed);
    progress.released.store(progress.begin, std::memory_order_relaxed);
    progress.ended = progress.remains = progress.row_remains = false;
    progress.error = 0;
    progress.total = 0;
    for (; chunks_ < progress.end; ++chunks_) item_of_[chunks_] = static_cast<std::uint16_t>(i);
  }
  if (!in_one_row_) return;
  progress_[0].row_end = chunks_;
  progress_[0].comes_short.store(chunks_, std::memory_order_relaxed);
}

void ScatteredRead::write_targets() noexcept {
  auto& targets = lease_->words().targets;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Progress& progress = progress_[i];
    if (progress.head_bytes > 0) targets[progress.begin] = items_[i].to;
    cuda::DevicePtr target = items_[i].to + progress.head_bytes;
    for (std::uint32_t chunk = progress.first; chunk < progress.end; ++chunk, target += chunk_bytes_) {
      targets[chunk] = target;
    }
  }
}

void ScatteredRead::run(std::span<ReadItem> items, staging::StagingLease& lease, CopyEngine engine,
                        Bond bond) noexcept {
  in_one_row_ = bond == Bond::one_transfer;
  while (!items.empty()) {
    items = items.subspan(cut(items));
    const bool by_kernel =
        engine != CopyEngine::engine && lease.device().can_scatter() && lease.kernel_worth_trying(bytes());
    carry(lease, by_kernel);
    settle();
    const ReadItem& last = items_.back();
    if (!in_one_row_ || last.outcome.count() == last.length) continue;
    for (ReadItem& behind : items) {
      behind.outcome = Outcome::bytes(0);
      behind.remains = last.remains;
    }
    return;
  }
}

void ScatteredRead::carry(staging::StagingLease& lease, bool by_kernel) noexcept {
  lease_ = &lease;
  staging::StagingWords& words = lease.words();
  const std::uint32_t first_phase = target_of(0) % 16;
  const bool alike =
      std::all_of(items_.begin(), items_.end(), [&](const ReadItem& item) { return item.to % 16 == first_phase; });
  // Where all lie alike, neighbours in the staging buffer touch, and the copy engine takes them in one piece.
  slots_ = lease.bytes().data();
  stride_ = alike ? chunk_bytes_ : chunk_bytes_ + 64;
  const auto slots = std::min(staging::most_slots, static_cast<std::uint32_t>((lease.bytes().size() - 16) / stride_));
  const bool apart = by_kernel && chunk_bytes_ >= usual_chunk && chunks_ > most_helpers && workers::active_jobs() == 0;
  layout_ = apart ? staging::SlotLayout::of_their_own(slots, workers::worker_count() + 1)
                  : staging::SlotLayout{.count = slots};
  first_number_ = lease.numbers(chunks_);
  std::atomic_ref(words.copied).store(0, std::memory_order_relaxed);
  renew_states(first_number_);
  issued_ = 0;
  failure_ = cuda::success;
  copied_.store(0, std::memory_order_relaxed);
  by_kernel_.store(by_kernel, std::memory_order_relaxed);
  next_.store(1, std::memory_order_relaxed);  // the first is the caller's
  const workers::JobScope scope(*this, std::min(most_helpers, chunks_ - 1));
  if (by_kernel) launch();
  staging::SlotCursor cursor(layout_, 0);
  for (std::uint32_t chunk = 0; chunk < chunks_; chunk = next_.fetch_add(1, std::memory_order_relaxed)) {
    base::SpinBackoff backoff;
    while (!has_room(cursor, chunk)) look_after_device(backoff);
    if (is_lost()) break;
    read(cursor, chunk);
    release(item_of_[chunk]);
    if (!this->by_kernel()) pump();
  }
  finish();
}

// Each buffer counts for itself: what lies here of another one's chunks may have the numbers of these. The reader of a
// chunk has its state in a cache: they are left alone as long as numbers grow.
void ScatteredRead::renew_states(std::uint32_t first) noexcept {
  if (first <= last_number_) {
    for (ChunkState& state : states_) state.ready.store(0, std::memory_order_relaxed);
  }
  last_number_ = first + chunks_ - 1;
}

void ScatteredRead::run_helper(unsigned number) noexcept {
  staging::SlotCursor cursor(layout_, number);
  for (;;) {
    const std::uint32_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= chunks_) return;
    base::SpinBackoff backoff;
    while (!has_room(cursor, chunk)) backoff.wait();
    if (is_lost()) return;
    read(cursor, chunk);
    release(item_of_[chunk]);
  }
}

void ScatteredRead::settle() noexcept {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Progress& progress = progress_[i];
    ReadItem& item = items_[i];
    item.remains = failure_ != cuda::success || progress.remains;
    if (failure_ != cuda::success) {
      item.outcome = gpu::as_outcome(failure_);
    } else if (progress.total == 0 && progress.error != 0) {
      item.outcome = Outcome::system_error(progress.error);
    } else {
      item.outcome = Outcome::bytes(progress.total);
    }
  }
}

bool ScatteredRead::has_left(std::uint32_t chunk) const noexcept {
  if (copied_.load(std::memory_order_acquire) > chunk) return true;
  // The last one of this slot, perhaps of an earlier launch.
  const std::uint32_t last = base::load_acquire(lease_->words().completed[chunk % gpu::ticket_slots]) - first_number_;
  return last < chunks_ && last >= chunk;
}

bool ScatteredRead::has_room(const staging::SlotCursor& cursor, std::uint32_t chunk) const noexcept {
  if (chunk >= gpu::ticket_slots && !has_left(chunk - gpu::ticket_slots)) return false;
  const std::optional<std::uint32_t> before = cursor.in_the_way_of(chunk);
  return !before || has_left(*before);
}

void ScatteredRead::read(staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
  ChunkState& state = this->state(chunk);
  state.slot = cursor.slot_for(chunk);
  cursor.has_read(chunk);
  const std::uint32_t index = item_of_[chunk];
  const ReadItem& item = items_[index];
  state.outcome = 0;
  state.remains = false;
  Progress& row = row_of(index);
  std::uint32_t known = row.comes_short.load(std::memory_order_relaxed);
  if (chunk < known) {
    const std::uint32_t size = wanted(chunk);
    const Outcome got = io::read_span_if_cached(item.fd, {bytes_of(chunk), size},
                                                FileOffset{item.at.value + begin_of(chunk)}, item.file_size);
    state.outcome = got.value();
    // EINVAL: the descriptor has got O_DIRECT since it was registered, which somebody else deals with.
    state.remains = got.error() == EAGAIN || got.error() == EINVAL;
    if (state.outcome < static_cast<std::int64_t>(size)) {
      while (chunk < known && !row.comes_short.compare_exchange_weak(known, chunk, std::memory_order_relaxed)) {
      }
    }
  }
  state.ready.store(number(chunk), std::memory_order_seq_cst);
}

bool ScatteredRead::next_is_ready(const Progress& row) const noexcept {
  const std::uint32_t chunk = row.released.load(std::memory_order_relaxed);
  return chunk < row.row_end && state(chunk).ready.load(std::memory_order_seq_cst) == number(chunk);
}

// One thread releases chunks of a row at a time; others leave their chunks to it. Nobody's chunk is
// forgotten: it was made ready before the flag was looked at, and the releasing thread looks again after it has taken
// its flag down.
void ScatteredRead::release(std::uint32_t item) noexcept {
  Progress& row = row_of(item);
  while (next_is_ready(row) && !row.releasing.exchange(true, std::memory_order_seq_cst)) {
    while (next_is_ready(row)) release_next(row);
    row.releasing.store(false, std::memory_order_seq_cst);
  }
}

void ScatteredRead::release_next(Progress& row) noexcept {
  const std::uint32_t chunk = row.released.load(std::memory_order_relaxed);
  Progress& progress = progress_[item_of_[chunk]];
  ChunkState& state = this->state(chunk);
  state.length = 0;
  if (!row.ended) {
    if (state.outcome > 0) state.length = static_cast<std::uint32_t>(state.outcome);
    if (state.outcome < 0 && !state.remains) progress.error = static_cast<int>(-state.outcome);
    progress.remains = row.row_remains = state.remains;
    progress.total += state.length;
    row.ended = state.length < wanted(chunk);
  } else if (row.row_remains) {
    progress.remains = true;
  }
  publish(chunk, state.length);
  row.released.store(chunk < heads_ ? row.first : chunk + 1, std::memory_order_release);
}

// The kernel's turn, unless the launch was revoked. The bytes were written by a thread that made the chunk ready
// after them; what is read here in that order, the device reads in that order.
void ScatteredRead::publish(std::uint32_t chunk, std::uint32_t length) noexcept {
  if (!by_kernel()) return;
  const std::atomic_ref ticket(lease_->words().tickets[chunk % gpu::ticket_slots].value);
  const std::uint64_t value = gpu::ticket_of(number(chunk), length, state(chunk).slot);
  if (chunk > 0) return ticket.store(value, std::memory_order_release);
  // In this one place a revoke() may come between.
  std::uint64_t none = 0;
  ticket.compare_exchange_strong(none, value, std::memory_order_release, std::memory_order_relaxed);
}

void ScatteredRead::launch() noexcept {
  staging::StagingWords& words = lease_->words();
  launch_id_ = lease_->next_launch_id();
  write_targets();
  std::atomic_ref(words.tickets[0].value).store(0, std::memory_order_release);  // may still say revoked
  const int result = lease_->device().launch(gpu::Scatter{.slots = slots_,
                                                          .targets = words.targets.data(),
                                                          .tickets = words.tickets.data(),
                                                          .completed = words.completed.data(),
                                                          .words = &words.launch,
                                                          .chunk_bytes = chunk_bytes_,
                                                          .stride = stride_,
                                                          .chunks = chunks_,
                                                          .silent_up_to = layout_.enough_for(),
                                                          .first_number = first_number_,
                                                          .launch_id = launch_id_});
  launched_ = std::chrono::steady_clock::now();
  if (result != cuda::success) by_kernel_.store(false, std::memory_order_release);
}

// Takes the work back from a kernel that has not begun. False: it has.
//
// The first ticket is exchanged, not overwritten: when its slot has been used again the kernel has begun, and needs
// what is there. Otherwise either the first block reads `revoked`, or this thread reads `begun`; a full fence on
// both sides excludes that neither does.
bool ScatteredRead::revoke() noexcept {
  staging::StagingWords& words = lease_->words();
  const std::atomic_ref ticket(words.tickets[0].value);
  std::uint64_t seen = ticket.load(std::memory_order_relaxed);
  do {
    if (seen != 0 && static_cast<std::uint32_t>(seen) != first_number_) return false;
  } while (!ticket.compare_exchange_weak(seen, gpu::revoked_ticket, std::memory_order_seq_cst));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (base::load_acquire(words.launch.begun) == launch_id_) {
    base::SpinBackoff backoff;
    while (base::load_acquire(words.launch.commit) >> 2U != launch_id_) {
      backoff.wait();
      if (backoff.long_since() && !is_healthy()) return false;
    }
    if ((base::load_acquire(words.launch.commit) & 3U) == 1) return false;
  }
  lease_->revoked(launch_id_);
  observe::count_copy(observe::CopyCounter::kernel_revoked);
  by_kernel_.store(false, std::memory_order_release);
  return true;
}

bool ScatteredRead::is_healthy() noexcept {
  const int result = lease_->device().health();
  if (result == cuda::success) return true;
  give_up(result);
  return false;
}

// The device is lost to this context. A thread that waits for a slot is let go, and leaves it as it is: what lies there
// may not have been released yet.
void ScatteredRead::give_up(int result) noexcept {
  failure_ = result;
  lease_->condemn();
  for (std::size_t i = 0; i < items_.size(); ++i) progress_[i].comes_short.store(0, std::memory_order_relaxed);
  copied_.store(lost, std::memory_order_release);
}

void ScatteredRead::look_after_device(base::SpinBackoff& backoff) noexcept {
  backoff.wait();
  if (failure_ != cuda::success) return;
  if (!by_kernel()) {
    pump();
  } else if (base::load_acquire(lease_->words().launch.begun) != launch_id_) {
    if (std::chrono::steady_clock::now() - launched_ > launch_start_timeout(bytes())) revoke();
  } else if (backoff.long_since()) {
    is_healthy();
  }
}

bool ScatteredRead::is_released(std::uint32_t chunk) const noexcept {
  return row_of(item_of_[chunk]).released.load(std::memory_order_acquire) > chunk;
}

// Gives the copy engine what has been released, in the order of the chunks, and sees how far it is.
void ScatteredRead::pump() noexcept {
  if (failure_ != cuda::success) return;
  std::uint32_t ready = issued_;
  while (ready < chunks_ && is_released(ready)) ++ready;
  if (issued_ < ready) {
    int result = copy_released(ready);
    if (result == cuda::success) result = lease_->device().mark(&lease_->words().copied, issued_);
    if (result != cuda::success) {
      lease_->device().finish_copies();
      give_up(result);
      return;
    }
  }
  copied_.store(base::load_acquire(lease_->words().copied), std::memory_order_release);
}

// Neighbours on both sides in one copy; many copies in one call where the driver has it.
int ScatteredRead::copy_released(std::uint32_t end) noexcept {
  std::array<gpu::Copy, 64> copies;
  int result = cuda::success;
  while (issued_ < end && result == cuda::success) {
    std::size_t count = 0;
    for (; issued_ < end; ++issued_) {
      const std::uint32_t length = state(issued_).length;
      if (length == 0) continue;
      const gpu::Copy next{target_of(issued_), bytes_of(issued_), length};
      if (count > 0 && copies[count - 1].to + copies[count - 1].size == next.to &&
          copies[count - 1].from + copies[count - 1].size == next.from) {
        copies[count - 1].size += length;
        continue;
      }
      if (count == copies.size()) break;
      copies[count++] = next;
    }
    result = lease_->device().copy_to_device(std::span(copies).first(count));
  }
  return result;
}

void ScatteredRead::finish() noexcept {
  base::SpinBackoff backoff;
  while (failure_ == cuda::success && by_kernel() && base::load_acquire(lease_->words().launch.done) != launch_id_) {
    look_after_device(backoff);
  }
  if (failure_ != cuda::success) return;
  if (by_kernel()) {
    observe::count_copy(observe::CopyCounter::scatter_kernel, in_one_row_ ? 1 : items_.size());
    lease_->kernel_did_well();
    return;
  }
  while (failure_ == cuda::success && copied_.load(std::memory_order_relaxed) < chunks_) {
    pump();
    backoff.wait();
    if (backoff.long_since()) is_healthy();
  }
  const bool at_once = lease_->device().can_copy_many();
  observe::count_copy(at_once ? observe::CopyCounter::many_copies : observe::CopyCounter::copy_engine,
                      in_one_row_ ? 1 : items_.size());
}

}  // namespace sluice::transfer
