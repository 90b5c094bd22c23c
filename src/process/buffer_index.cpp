// SPDX-License-Identifier: Apache-2.0
// See the header for the protocol; the comments here say which store must be seen by whom.
#include "process/buffer_index.h"

#include <algorithm>

#include "base/backoff.h"
#include "base/thread_number.h"

namespace sluice::process {

BufferIndex::BufferIndex() : current_(new Entries) {}
BufferIndex::~BufferIndex() {
  delete current_.load();
}

void BufferIndex::publish(std::unique_ptr<Entries> next) {
  std::uint64_t reach = 0;
  for (Entry& entry : *next) {
    reach = std::max(reach, entry.range.end);
    entry.reach = reach;
  }
  const std::unique_ptr<const Entries> old(current_.exchange(next.release()));
  // Twice: a reader that took its parity just before a flip may count itself in after the wait of that flip, but then
  // it loads `current_` after the exchange above and has the new array; the second turn waits for the other parity.
  for (int turn = 0; turn < 2; ++turn) {
    const unsigned parity = epoch_.fetch_add(1) & 1;
    for (const Readers& shard : readers_) {
      base::Backoff backoff;
      while (shard.counts[parity].load() != 0) backoff.wait();
    }
  }
}

bool BufferIndex::insert(const RegisteredRange& range) {
  const std::lock_guard lock(mutex_);
  const Entries& now = *current_.load();
  const auto place = std::lower_bound(now.begin(), now.end(), range.base,
                                      [](const Entry& entry, std::uint64_t base) { return entry.range.base < base; });
  if (place != now.end() && place->range.base == range.base) return false;
  auto next = std::make_unique<Entries>();
  next->reserve(now.size() + 1);
  next->insert(next->end(), now.begin(), place);
  next->push_back({range, 0});
  next->insert(next->end(), place, now.end());
  publish(std::move(next));
  return true;
}

std::optional<RegisteredRange> BufferIndex::remove(std::uint64_t base) {
  const std::lock_guard lock(mutex_);
  const Entries& now = *current_.load();
  const auto place =
      std::find_if(now.begin(), now.end(), [base](const Entry& entry) { return entry.range.base == base; });
  if (place == now.end()) return std::nullopt;
  const RegisteredRange removed = place->range;
  auto next = std::make_unique<Entries>(now);
  next->erase(next->begin() + (place - now.begin()));
  publish(std::move(next));
  return removed;
}

std::vector<RegisteredRange> BufferIndex::clear() {
  const std::lock_guard lock(mutex_);
  std::vector<RegisteredRange> cleared;
  for (const Entry& entry : *current_.load()) cleared.push_back(entry.range);
  publish(std::make_unique<Entries>());
  return cleared;
}

std::optional<RegisteredRange> BufferIndex::find(std::uint64_t base, std::uint64_t address,
                                                 std::uint64_t size) noexcept {
  auto& count = readers_[base::thread_number() % shard_count].counts[epoch_.load() & 1];
  // Counted before `current_` is loaded: a writer that sees no count has published before this load.
  count.fetch_add(1);
  const Entries& entries = *current_.load();
  std::optional<RegisteredRange> found;
  const auto starts_behind = [](std::uint64_t value, const Entry& entry) { return value < entry.range.base; };
  auto place = std::upper_bound(entries.begin(), entries.end(), base, starts_behind);
  if (place != entries.begin() && (place - 1)->range.base == base) {
    found = (place - 1)->range;
  } else {
    place = std::upper_bound(entries.begin(), entries.end(), address, starts_behind);
    while (place != entries.begin()) {
      --place;
      if (place->reach <= address) break;
      if (place->range.end <= address) continue;
      if (!found) found = place->range;
      if (size <= place->range.end - address) {
        found = place->range;
        break;
      }
    }
  }
  count.fetch_sub(1);
  return found;
}

std::vector<RegisteredRange> BufferIndex::overlapping(std::uint64_t begin, std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  std::vector<RegisteredRange> found;
  for (const Entry& entry : *current_.load()) {
    if (entry.range.base < end && begin < entry.range.end) found.push_back(entry.range);
  }
  return found;
}

void BufferIndex::after_fork(bool in_child) {
  if (in_child) {
    for (Readers& shard : readers_) {
      for (auto& count : shard.counts) count.store(0);
    }
  }
  mutex_.unlock();
}

}  // namespace sluice::process
