// SPDX-License-Identifier: Apache-2.0
// The first items of all streams come first, then the second ones: the places of the staging buffer hold work for many
// helpers.
#include "transfer/gathered_write.h"

#include <algorithm>

#include "observe/copy_counters.h"
#include "workers/active_count.h"

namespace sluice::transfer {

using base::Outcome;

namespace {

constexpr std::uint32_t block_bytes = 4096;  // places are of whole ones
constexpr unsigned most_writers = 11;
constexpr std::uint64_t most_in_a_copy = 1 << 20;
constexpr std::uint64_t most_in_the_first_copy = 256 << 10;
// In turns: what a writer writes at once, how many helpers there are, and from which items on it pays. The first turn
// is short, so that writing begins soon.
constexpr std::uint64_t most_in_a_turn = 1 << 20;
constexpr std::uint64_t most_in_the_first_turn = 512 << 10;
constexpr unsigned helpers_in_turns = 2;
constexpr std::uint64_t smallest_in_turns = 256 << 10;
constexpr std::uint64_t smallest_run_in_turns = 2 << 20;
// Of the staging buffer, for each stream: bytes that a processor's cache still has are written sooner. Measured on an
// H200, one stream: 1.05 times the speed that the whole buffer gives.
constexpr std::uint32_t span_of_one = 3 * (512 << 10);

}  // namespace

// Buffered items of one file share a stream.
std::uint16_t ManyWrites::stream_of(std::uint16_t item) noexcept {
  const WriteItem& wanted = items_[item];
  for (std::uint32_t i = 0; wanted.block == 1 && i < streams_count_; ++i) {
    const WriteItem& last = items_[last_of_[i]];
    if (last.block == 1 && last.file == wanted.file) return static_cast<std::uint16_t>(i);
  }
  WriteStream& stream = streams_[streams_count_];
  stream.holder.store(WriteStream::Holder::none, std::memory_order_relaxed);
  stream.next.store(no_chunk, std::memory_order_relaxed);
  last_of_[streams_count_] = none;
  return static_cast<std::uint16_t>(streams_count_++);
}

// Gives an item its chunks, behind those that have theirs.
void ManyWrites::append(std::uint16_t item) noexcept {
  Progress& progress = progress_[item];
  progress.first = chunks_;
  progress.end = chunks_ + chunks_in(items_[item].length, slot_bytes_);
  for (; chunks_ < progress.end; ++chunks_) item_of_[chunks_] = item;
  std::atomic<std::uint32_t>& next = streams_[progress.stream].next;
  if (next.load(std::memory_order_relaxed) == no_chunk) next.store(progress.first, std::memory_order_relaxed);
}

void ManyWrites::cut(std::span<WriteItem> items, Bond bond) noexcept {
  items_ = items;
  bond_ = bond;
  broken_.store(false, std::memory_order_relaxed);
  through_.store(0, std::memory_order_relaxed);
  told_ = 0;
  std::uint64_t longest = 0;
  for (const WriteItem& item : items_) longest = std::max(longest, item.length);
  slot_bytes_ = std::min(largest_chunk, chunks_in(longest, block_bytes) * block_bytes);
  chunks_ = 0;
  streams_count_ = 0;
  std::array<std::uint32_t, most_write_items> order;
  std::array<std::uint32_t, most_write_items> of_stream{};
  const auto count = static_cast<std::uint32_t>(items_.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint16_t>(i);
    Progress& progress = progress_[i];
    progress.stream = stream_of(index);
    progress.next = none;
    progress.done = 0;
    progress.error = 0;
    progress.came_short = progress.is_told = false;
    progress.is_through.store(false, std::memory_order_relaxed);
    std::uint16_t& last = last_of_[progress.stream];
    if (last != none) progress_[last].next = index;
    last = index;
    order[i] = of_stream[progress.stream]++ << 16U | i;
  }
  std::sort(order.begin(), order.begin() + count);
  for (std::uint32_t i = 0; i < count; ++i) append(static_cast<std::uint16_t>(order[i]));
  in_turns_ = can_take_turns();
  const std::uint64_t span =
      in_turns_ ? staging::staging_bytes
                : std::min<std::uint64_t>(staging::staging_bytes, std::uint64_t{span_of_one} * streams_count_);
  slot_count_ = std::min({staging::most_slots, static_cast<std::uint32_t>(span / slot_bytes_), chunks_});
  for (std::uint32_t place = 0; place < slot_count_; ++place) written_[place].store(place, std::memory_order_relaxed);
}

bool ManyWrites::can_take_turns() const noexcept {
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

// What lies behind a chunk that came short is not written, of its item or of the transfer that all are.
bool ManyWrites::has_written(std::uint32_t chunk, std::uint64_t count, int error) noexcept {
  Progress& progress = progress_[item_of_[chunk]];
  progress.done += count;
  if (error != 0) progress.error = error;
  if (count < (*this)[chunk].length) {
    progress.came_short = true;
    if (bond_ == Bond::one_transfer) broken_.store(true, std::memory_order_relaxed);
  }
  // Release: the next copy into this place comes after the write from it; the caller tells of bytes that are written.
  written_[chunk % slot_count_].store(chunk + slot_count_, std::memory_order_release);
  if (chunk + 1 < progress.end) return true;
  progress.is_through.store(true, std::memory_order_release);
  through_.fetch_add(1, std::memory_order_release);
  return true;
}

std::size_t ManyWrites::take_ended(std::span<std::uint16_t, most_write_items> ended) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Progress& progress = progress_[i];
    if (progress.is_told || !progress.is_through.load(std::memory_order_acquire)) continue;
    progress.is_told = true;
    const bool nothing = progress.done == 0 && progress.error != 0;
    items_[i].outcome = nothing ? Outcome::system_error(progress.error) : Outcome::bytes(progress.done);
    items_[i].remains = false;
    ended[count++] = static_cast<std::uint16_t>(i);
  }
  told_ += count;
  return count;
}

template <typename Listener>
void ManyWrites::tell(Listener& listener, bool at_once) noexcept {
  if (told_ == through_.load(std::memory_order_acquire)) return;
  std::array<std::uint16_t, most_write_items> ended;
  const std::size_t count = take_ended(ended);
  if (count == 0) return;
  // Before the listener hears of them, and may look at the counters.
  observe::count_copy(at_once ? observe::CopyCounter::many_copies : observe::CopyCounter::copy_engine,
                      bond_ == Bond::none ? count : std::size_t{told_ == count});
  listener.through(std::span(ended).first(count));
}

void ManyWrites::leave_rest() noexcept {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (progress_[i].is_told) continue;
    items_[i].outcome = Outcome::bytes(progress_[i].done);
    items_[i].remains = true;
  }
}

void GatheredWrite::run(std::span<WriteItem> items, staging::StagingLease& lease, Listener& listener,
                        Bond bond) noexcept {
  chunks_.cut(items, bond);
  const workers::ActiveCount::Scope writer(workers::active_counts::writers_of(items.front().file));
  const auto streams = static_cast<unsigned>(chunks_.streams().size());
  const WritePace pace{.in_turns = chunks_.is_in_turns(),
                       .helpers = chunks_.is_in_turns() ? helpers_in_turns : std::min(most_writers, streams),
                       .first_copy = most_in_the_first_copy,
                       .copy = most_in_a_copy,
                       .first_turn = most_in_the_first_turn,
                       .turn = most_in_a_turn};
  const bool at_once = lease.device().can_copy_many();
  pipeline_.run(pace, lease, [&] { chunks_.tell(listener, at_once); });
  chunks_.leave_rest();
}

}  // namespace sluice::transfer
