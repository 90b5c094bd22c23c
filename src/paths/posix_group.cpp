// SPDX-License-Identifier: Apache-2.0
// From items to those of transfer/, and back.
#include "paths/posix_group.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

#include "base/processor.h"
#include "gpu/session.h"
#include "io/uring.h"
#include "paths/prefetch_range.h"
#include "staging/staging_buffer.h"
#include "transfer/deep_read.h"
#include "transfer/gathered_write.h"
#include "transfer/scattered_read.h"

namespace sluice::paths {

using base::Outcome;

namespace {

transfer::ReadItem read_item_of(const Item& item) noexcept {
  return {.fd = item.ends->file.descriptor(),
          .at = item.piece.at,
          .length = item.piece.length,
          .file_size = item.ends->now.size(),
          .to = item.piece.address,
          .memory = item.ends->memory.id};
}

bool has_same_ends(const Ends& one, const Ends& other) noexcept {
  return &one == &other || (&one.file == &other.file && one.memory.id == other.memory.id);
}

bool follows(const Item& first, const Item& second) noexcept {
  return first.piece.at.value + first.piece.length == second.piece.at.value &&
         first.piece.address + first.piece.length == second.piece.address && has_same_ends(*first.ends, *second.ends);
}

// EIO, and an end where the file has none, may be no item's: a read of the rest by itself finds out.
bool stops_early(const transfer::ReadItem& item) noexcept {
  return item.outcome.error() == EIO || (item.outcome.ok() && item.file_size != ~std::uint64_t{0} &&
                                         item.at.value + item.outcome.count() < item.file_size);
}

void end(Item& item, Outcome outcome) noexcept {
  item.outcome = outcome;
  item.ended = true;
}

// With a staging buffer, where there is one.
template <typename Carry>
void with_lease(std::span<Item> items, std::uint64_t bytes, Carry carry) noexcept {
  const gpu::Session session(items.front().ends->memory);
  staging::StagingLease lease = staging::StagingLease::take(session, bytes);
  if (lease) return carry(lease);
  for (Item& item : items) item.alone = true;  // nor would there be an io_uring for the disk
}

class CachedReads final : public GroupMover {
 public:
  void move(std::span<Item> items, const Grouping& grouping, transfer::Bond bond,
            Completion& /*completion*/) noexcept override {
    std::uint64_t bytes = 0;
    for (const Item& item : items) bytes += item.piece.length;
    with_lease(items, bytes, [&](staging::StagingLease& lease) noexcept {
      const std::size_t count = pack(items);
      // A kernel must not wait for storage: where reading may, the copy engine takes what has come.
      const auto engine =
          grouping.may_wait ? transfer::CopyEngine::engine : copy_engine_of(items.front().ends->file.options.copy_mode);
      read_.run(std::span(packed_).first(count), lease, engine, bond);
      unpack(items, count);
    });
  }

 private:
  // What follows each other in file and memory is read as one.
  std::size_t pack(std::span<const Item> items) noexcept {
    std::size_t count = 0;
    const Item* before = nullptr;
    for (const Item& item : items) {
      if (before != nullptr && follows(*before, item) &&
          packed_[count - 1].length + item.piece.length <= transfer::most_in_a_read_item) {
        packed_[count - 1].length += item.piece.length;
        ++members_[count - 1];
      } else {
        packed_[count] = read_item_of(item);
        members_[count++] = 1;
      }
      before = &item;
    }
    return count;
  }

  // What came short in the middle says nothing of the items behind: the end of the file, or an error that each of them
  // has to hear of. The one in the middle keeps what it has got: whatever becomes of the rest, these bytes count.
  void unpack(std::span<Item> items, std::size_t count) noexcept {
    auto item = items.begin();
    for (std::size_t i = 0; i < count; ++i) {
      const transfer::ReadItem& done = packed_[i];
      std::uint64_t left = done.outcome.count();
      for (std::size_t member = 0; member < members_[i]; ++member, ++item) {
        const std::uint64_t arrived = std::min(left, item->piece.length);
        if (arrived == item->piece.length) {
          end(*item, Outcome::bytes(arrived));
        } else if (members_[i] == 1 && !done.remains && !stops_early(done)) {
          end(*item, done.outcome);
        } else {
          item->outcome = Outcome::bytes(arrived);
        }
        left -= arrived;
      }
    }
  }

  alignas(base::line_bytes) std::array<transfer::ReadItem, most_in_any_group> packed_;
  std::array<std::uint16_t, most_in_any_group> members_;  // how many items each is made of
  transfer::ScatteredRead read_;
};

// Hands on what transfer/ tells of its items.
template <typename Listener, typename Theirs>
class HandOn final : public Listener {
 public:
  HandOn(std::span<Item> items, std::span<const Theirs> theirs, Completion& completion) noexcept
      : items_(items), theirs_(theirs), completion_(completion) {}
  void through(std::span<const std::uint16_t> numbers) noexcept override {
    for (const std::uint16_t number : numbers) end(items_[number], outcome_of(theirs_[number]));
    completion_.ended(numbers);
  }

  static Outcome outcome_of(const transfer::DiskReadItem& item) noexcept { return item.item.outcome; }
  static Outcome outcome_of(const transfer::WriteItem& item) noexcept { return item.outcome; }

 private:
  std::span<Item> items_;
  std::span<const Theirs> theirs_;
  Completion& completion_;
};

class DiskReads final : public GroupMover {
 public:
  void move(std::span<Item> items, const Grouping& /*grouping*/, transfer::Bond bond,
            Completion& completion) noexcept override {
    with_lease(items, 0, [&](staging::StagingLease& lease) noexcept {
      const io::DiskQueue& queue = items.front().ends->file.disk;
      if (!queue.takes_rings()) return;
      const io::Uring::Use disk =
          io::Uring::of_this_thread(io::CompletionMode::interrupt);  // not all may be polled for
      if (!disk) return;
      const std::span theirs = std::span(theirs_).first(items.size());
      for (std::size_t i = 0; i < items.size(); ++i) {
        theirs[i].item = read_item_of(items[i]);
        theirs[i].block = block_of(items[i].ends->file);
      }
      HandOn<transfer::DeepRead::Listener, transfer::DiskReadItem> listener(items, theirs, completion);
      read_.run(theirs, lease, *disk, listener, bond);
      // What is in place already counts, whatever becomes of the rest.
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (theirs[i].item.remains) items[i].outcome = Outcome::bytes(theirs[i].item.outcome.count());
      }
    });
  }

 private:
  std::array<transfer::DiskReadItem, transfer::most_disk_items> theirs_;
  transfer::DeepRead read_;
};

class Writes final : public GroupMover {
 public:
  void move(std::span<Item> items, const Grouping& /*grouping*/, transfer::Bond bond,
            Completion& completion) noexcept override {
    with_lease(items, 0, [&](staging::StagingLease& lease) noexcept {
      const std::span theirs = std::span(theirs_).first(items.size());
      for (std::size_t i = 0; i < items.size(); ++i) {
        File& file = items[i].ends->file;
        theirs[i] = {file.descriptor(),
                     items[i].piece.at,
                     items[i].piece.length,
                     block_of(file),
                     &file.buffered,
                     items[i].piece.address,
                     items[i].ends->memory.id,
                     facts::file_number(file.facts),
                     write_range_of_file(file.descriptor(), file.facts)};
      }
      HandOn<transfer::GatheredWrite::Listener, transfer::WriteItem> listener(items, theirs, completion);
      write_.run(theirs, lease, listener, bond);
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (theirs[i].remains) items[i].outcome = Outcome::bytes(theirs[i].outcome.count());
      }
    });
  }

 private:
  std::array<transfer::WriteItem, transfer::most_write_items> theirs_;
  transfer::GatheredWrite write_;
};

}  // namespace

std::unique_ptr<GroupMover> staging_group(GroupClass group_class) noexcept {
  switch (group_class) {
    case GroupClass::cached:
      return std::unique_ptr<GroupMover>(new (std::nothrow) CachedReads);
    case GroupClass::disk:
      return std::unique_ptr<GroupMover>(new (std::nothrow) DiskReads);
    case GroupClass::write:
      return std::unique_ptr<GroupMover>(new (std::nothrow) Writes);
    default:
      return nullptr;
  }
}

}  // namespace sluice::paths
