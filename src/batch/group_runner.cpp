// SPDX-License-Identifier: Apache-2.0
// From entries to the items of transfer/ and paths/, and back.
#include "batch/group_runner.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <new>
#include <numeric>
#include <utility>

#include "batch/classifier.h"
#include "facts/descriptor_check.h"
#include "gpu/introduce.h"
#include "gpu/memory.h"
#include "gpu/session.h"
#include "observe/probes.h"
#include "observe/statistics.h"
#include "observe/trace.h"
#include "paths/p2pdma/p2pdma.h"
#include "paths/prefetch_range.h"
#include "request/transfer.h"

namespace sluice::batch {

using base::Outcome;

namespace {

transfer::CopyEngine copy_engine_of(paths::CopyMode copy_mode) noexcept {
  if (copy_mode == paths::CopyMode::kernel) return transfer::CopyEngine::kernel;
  return copy_mode == paths::CopyMode::copy_engine ? transfer::CopyEngine::engine : transfer::CopyEngine::automatic;
}

std::uint64_t bytes_of(std::span<Entry* const> entries) noexcept {
  std::uint64_t bytes = 0;
  for (const Entry* const entry : entries) bytes += entry->call.size;
  return bytes;
}

// The class of an entry that its group did not carry to its end. One that changes its way counts on both.
void demote(Entry& entry, transfer::Bond bond = transfer::Bond::none) noexcept {
  if (entry.coalescing.batch_class == BatchClass::cached) {
    leave_cached(entry);
  } else {
    entry.coalescing.batch_class = BatchClass::none;
  }
  if (entry.coalescing.batch_class != BatchClass::none || entry.progress.there == 0 || bond != transfer::Bond::none)
    return;
  observe::count_path(entry.coalescing.path->traits.id, entry.coalescing.reason, entry.call.direction,
                      Outcome::bytes(entry.progress.there));
}

// All of it, or what is left of it.
transfer::ReadItem item_of(const Entry& entry) noexcept {
  const request::Call rest = request::rest_of(entry.call, entry.progress.there);
  return {entry.file->descriptor(), base::FileOffset{static_cast<std::uint64_t>(rest.file_offset)}, rest.size,
          entry.coalescing.file_size, entry.coalescing.address + entry.progress.there};
}

paths::DirectMember member_of(const Entry& entry) noexcept {
  return {entry.file->descriptor(),
          &entry.file->facts,
          &entry.coalescing.memory,
          paths::pair_of(*entry.file, entry.coalescing.memory),
          {entry.call.direction, route::SegmentMode::direct,
           base::FileOffset{static_cast<std::uint64_t>(entry.call.file_offset)}, entry.coalescing.address,
           entry.call.size}};
}

// An entry that was carried to its end.
Ending ended(const Entry& entry, Outcome rest) noexcept {
  const Outcome whole = request::after_prefix(entry.progress.there, rest);
  return {whole.ok() ? CUFILE_COMPLETE : CUFILE_FAILED, whole.value()};
}

// EIO, and an end where the file has none, may be nobody's: a read of the rest by itself finds out.
bool stops_early(const transfer::ReadItem& item) noexcept {
  return item.outcome.error() == EIO || (item.outcome.ok() && item.file_size != ~std::uint64_t{0} &&
                                         item.at.value + item.outcome.count() < item.file_size);
}

std::uint64_t end_of(const Entry& entry) noexcept {
  return entry.coalescing.address + entry.call.size;
}

bool follows(const Entry& first, const Entry& second) noexcept {
  return &*first.file == &*second.file && end_of(first) == second.coalescing.address &&
         static_cast<std::uint64_t>(first.call.file_offset) + first.call.size ==
             static_cast<std::uint64_t>(second.call.file_offset);
}

// Looks at entries one after the other, and asks once for several of a kind.
class Revalidation {
 public:
  bool finds(Entry& entry) noexcept {
    const facts::BufferFacts& memory = entry.coalescing.memory;
    if (before_ == nullptr || &*before_->file != &*entry.file) {
      facts::DescriptorCheck now(entry.file->descriptor(), entry.file->facts);
      if (!now.finds_the_file()) return false;
      entry.coalescing.file_size = now.size();
    } else {
      entry.coalescing.file_size = before_->coalescing.file_size;
    }
    if (before_ == nullptr || before_->coalescing.memory.id != memory.id ||
        before_->coalescing.memory.context != memory.context) {
      const facts::BufferFacts now = gpu::inspect(entry.coalescing.address);
      if (now.kind != memory.kind || now.id != memory.id || now.context != memory.context) return false;
    }
    before_ = &entry;
    return true;
  }

 private:
  const Entry* before_ = nullptr;  // that was found
};

}  // namespace

std::size_t GroupRunner::part_as_submitted(std::span<Entry*> entries, std::span<std::uint16_t> slots) noexcept {
  Revalidation revalidation;
  std::size_t found = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!revalidation.finds(*entries[i])) {
      entries[i]->coalescing.batch_class = BatchClass::none;
      demote(*entries[i]);
      continue;
    }
    std::swap(entries[found], entries[i]);
    std::swap(slots[found++], slots[i]);
  }
  return found;
}

std::size_t GroupRunner::pack() noexcept {
  std::size_t count = 0;
  const Entry* before = nullptr;
  for (const Entry* const entry : entries_) {
    if (before != nullptr && follows(*before, *entry) &&
        items_[count - 1].length + entry->call.size <= transfer::most_in_a_read_item) {
      items_[count - 1].length += entry->call.size;
      ++members_[count - 1];
    } else {
      items_[count] = item_of(*entry);
      members_[count++] = 1;
    }
    before = entry;
  }
  return count;
}

// What came short in the middle of an item says nothing of the entries behind: the end of the file, or an error that
// each of them has to hear of. The one in the middle keeps what it has got: whatever becomes of the rest, these bytes
// count.
void GroupRunner::unpack() noexcept {
  std::size_t next = 0;
  for (std::size_t item = 0; item < item_count_; ++item) {
    const transfer::ReadItem& done = items_[item];
    std::uint64_t left = done.outcome.count();
    for (std::size_t member = 0; member < members_[item]; ++member, ++next) {
      Entry& entry = *entries_[next];
      const std::uint64_t count = std::min(left, entry.call.size);
      const bool is_whole = count == entry.call.size;
      if (is_whole || (members_[item] == 1 && !done.remains && !stops_early(done))) {
        endings_[next] = ended(entry, is_whole ? Outcome::bytes(count) : done.outcome);
      } else {
        entry.progress.there = count;
      }
      left -= count;
    }
  }
}

void GroupRunner::run_cached_reads(staging::StagingLease& lease) noexcept {
  if (!cached_) cached_.reset(new (std::nothrow) transfer::ScatteredRead);
  if (!cached_) return;
  item_count_ = pack();
  // A kernel must not wait for storage: where reading may, the copy engine takes what has come.
  const bool may_wait = entries_.front()->coalescing.storage != 0;
  cached_->run(std::span(items_).first(item_count_), lease,
               may_wait ? transfer::CopyEngine::engine : copy_engine_of(entries_.front()->coalescing.copy_mode), bond_);
  unpack();
}

// Some have ended while others are on their way: `outcome_of` tells how.
template <typename OutcomeOf>
void GroupRunner::notify(std::span<const std::uint16_t> numbers, OutcomeOf outcome_of, Listener& listener) noexcept {
  const std::int64_t milliseconds = timer_->so_far();
  for (const std::uint16_t number : numbers) {
    endings_[number] = ended(*entries_[number], outcome_of(number));
    record(number, milliseconds);
  }
  count();
  listener.ended(numbers);
}

class GroupRunner::FromDisk final : public transfer::DeepRead::Listener {
 public:
  FromDisk(GroupRunner& runner, GroupRunner::Listener& listener) noexcept : runner_(runner), listener_(listener) {}
  void through(std::span<const std::uint16_t> items) noexcept override {
    runner_.notify(
        items, [this](std::uint16_t number) { return runner_.disk_items_[number].item.outcome; }, listener_);
  }

 private:
  GroupRunner& runner_;
  GroupRunner::Listener& listener_;
};

class GroupRunner::Written final : public transfer::GatheredWrite::Listener {
 public:
  Written(GroupRunner& runner, GroupRunner::Listener& listener) noexcept : runner_(runner), listener_(listener) {}
  void through(std::span<const std::uint16_t> items) noexcept override {
    runner_.notify(
        items, [this](std::uint16_t number) { return runner_.write_items_[number].outcome; }, listener_);
  }

 private:
  GroupRunner& runner_;
  GroupRunner::Listener& listener_;
};

class GroupRunner::ByDrive final : public paths::DirectGroup::Listener {
 public:
  ByDrive(GroupRunner& runner, GroupRunner::Listener& listener) noexcept : runner_(runner), listener_(listener) {}
  void in_place(std::span<const std::uint16_t> members) noexcept override {
    runner_.notify(
        members, [this](std::uint16_t number) { return Outcome::bytes(runner_.direct_members_[number].done); },
        listener_);
  }

 private:
  GroupRunner& runner_;
  GroupRunner::Listener& listener_;
};

void GroupRunner::carry_from_disk(staging::StagingLease& lease, Listener& listener) noexcept {
  const io::DiskQueue& queue = entries_.front()->file->disk;
  if (!queue.takes_rings()) return;
  const io::Uring::Use disk = io::Uring::of_this_thread(queue.unpolled());
  if (!disk) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = *entries_[i];
    disk_items_[i].item = item_of(entry);
    disk_items_[i].block = paths::block_of(*entry.file);
  }
  FromDisk notified(*this, listener);
  disk_.run(std::span(disk_items_).first(entries_.size()), lease, *disk, notified, bond_);
  // What is in place already counts, whatever becomes of the rest.
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const transfer::ReadItem& item = disk_items_[i].item;
    if (item.remains) entries_[i]->progress.there += item.outcome.count();
  }
}

void GroupRunner::carry_written(staging::StagingLease& lease, Listener& listener) noexcept {
  if (!written_) written_.reset(new (std::nothrow) transfer::GatheredWrite);
  if (!written_) return;
  const std::span items = std::span(write_items_).first(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = *entries_[i];
    const facts::FileFacts& file = entry.file->facts;
    items[i] = {entry.file->descriptor(), base::FileOffset{static_cast<std::uint64_t>(entry.call.file_offset)},
                entry.call.size,          paths::block_of(*entry.file),
                &entry.file->buffered,    entry.coalescing.address,
                facts::file_number(file), paths::write_range_of_file(entry.file->descriptor(), file)};
  }
  Written notified(*this, listener);
  written_->run(items, lease, notified, bond_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (items[i].remains) entries_[i]->progress.there = items[i].outcome.count();
  }
}

std::uint64_t GroupRunner::bytes() const noexcept {
  return std::transform_reduce(entries_.begin(), entries_.end(), std::uint64_t{0}, std::plus<>(),
                               [](const Entry* entry) { return std::uint64_t{entry->call.size}; });
}

void GroupRunner::carry_by_staging(Listener& listener) noexcept {
  const gpu::Session session(entries_.front()->coalescing.memory);
  const bool cached = entries_.front()->coalescing.batch_class == BatchClass::cached;
  staging::StagingLease lease = staging::StagingLease::take(session, cached ? bytes() : 0);
  if (!lease) {
    // Nor would there be an io_uring for the disk.
    for (Entry* const entry : entries_) entry->coalescing.batch_class = BatchClass::none;
  } else if (cached) {
    run_cached_reads(lease);
  } else if (entries_.front()->coalescing.batch_class == BatchClass::disk) {
    carry_from_disk(lease, listener);
  } else {
    carry_written(lease, listener);
  }
}

void GroupRunner::carry_direct(Listener& listener) noexcept {
  const io::CompletionMode completion = entries_.front()->coalescing.completion;
  const io::Uring::Use lease = io::Uring::of_this_thread(completion);
  if (!lease) return;
  const std::span members = std::span(direct_members_).first(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) members[i] = member_of(*entries_[i]);
  ByDrive notified(*this, listener);
  direct_.run(members, *lease, completion, notified);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (endings_[i].status == CUFILE_WAITING) entries_[i]->progress = {members[i].done, members[i].stopped};
  }
}

void GroupRunner::count() noexcept {
  if (tally_.transfers > 0) observe::count_path(way_, tally_);
  tally_ = {};
}

// With the entry's pins. The next count() counts it.
void GroupRunner::record(std::size_t number, std::int64_t milliseconds) noexcept {
  if (bond_ != transfer::Bond::none) return;
  const Entry& entry = *entries_[number];
  const Ending& ending = endings_[number];
  const Outcome outcome = ending.status == CUFILE_COMPLETE ? Outcome::bytes(static_cast<std::uint64_t>(ending.result))
                                                           : Outcome::system_error(static_cast<int>(-ending.result));
  const observe::Way way{entry.coalescing.path->traits.id, entry.coalescing.reason, entry.call.direction};
  if (way != way_) {
    count();
    way_ = way;
  }
  tally_.add(outcome);
  observe::trace({entry.call.direction, entry.file->descriptor(), static_cast<std::uint64_t>(entry.call.file_offset),
                  entry.call.size, way.path, way.reason},
                 outcome);
  observe::entry_done(
      {entry.call.direction, entry.file->descriptor(), static_cast<std::uint64_t>(entry.call.file_offset),
       entry.call.size, entry.call.buffer_offset, SLUICE_TRACE_FROM_BATCH},
      outcome, way.path, way.reason, entry.coalescing.memory.device, std::chrono::milliseconds(milliseconds));
  request::TransferTimer::end(*entry.file, entry.call, outcome, milliseconds);
  if (!counting_) return;
  const observe::Transfer record{.direction = entry.call.direction,
                                 .requested = entry.call.size,
                                 .aligned = request::aligned(entry.call),
                                 .device = entry.coalescing.memory.device,
                                 .duration = std::chrono::steady_clock::now() - begun_,
                                 .path = entry.coalescing.path->traits.id,
                                 .in_batch = true};
  gpu::introduce_if_new(record.device);
  observe::count_transfer(record, outcome);
}

void GroupRunner::carry_all(Listener& listener) noexcept {
  const observe::PhaseProbe phase(SLUICE_TRACE_BATCH_GROUP, entries_.size());
  std::fill(endings_.begin(), endings_.end(), Ending{CUFILE_WAITING, 0});
  if (entries_.front()->coalescing.batch_class == BatchClass::direct) {
    carry_direct(listener);
  } else {
    carry_by_staging(listener);
  }
}

void GroupRunner::carry_as_one(std::span<Entry* const> entries, std::span<Ending> endings) noexcept {
  class Deaf final : public Listener {
   public:
    void ended(std::span<const std::uint16_t> /*numbers*/) noexcept override {}
  };
  entries_ = entries;
  endings_ = endings;
  bond_ = transfer::Bond::one_transfer;
  const request::TransferTimer timer;
  timer_ = &timer;
  Deaf nobody;
  carry_all(nobody);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (endings[i].status == CUFILE_WAITING) demote(*entries[i], bond_);
  }
}

void GroupRunner::carry(std::span<Entry* const> entries, std::span<Ending> endings, Listener& listener) noexcept {
  entries_ = entries;
  endings_ = endings;
  bond_ = transfer::Bond::none;
  const request::TransferTimer timer;
  timer_ = &timer;
  counting_ = observe::statistics_running();
  const observe::UnderWay under_way(entries.front()->call.direction, counting_ ? bytes_of(entries) : 0, entries.size());
  if (counting_) begun_ = std::chrono::steady_clock::now();
  const bool notified = entries.front()->coalescing.batch_class != BatchClass::cached;  // of those that have ended
  carry_all(listener);
  const std::int64_t milliseconds = timer.so_far();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (endings[i].status == CUFILE_WAITING) {
      demote(*entries[i]);
    } else if (!notified) {
      record(i, milliseconds);
    }
  }
  count();
}

}  // namespace sluice::batch
