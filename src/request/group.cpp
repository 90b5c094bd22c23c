// SPDX-License-Identifier: Apache-2.0
// From items to those of a path, and back.
#include "request/group.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "gpu/memory.h"
#include "observe/probes.h"
#include "request/explain.h"
#include "request/request.h"
#include "request/verify.h"

namespace sluice::request {

using base::Outcome;

namespace {

bool same_memory(const facts::BufferFacts& one, const facts::BufferFacts& other) noexcept {
  return one.kind == other.kind && one.id == other.id && one.context == other.context;
}

// Still its file, and its memory? `before` is one of which that was just found.
bool is_there(const Item& item, facts::DescriptorCheck& now, const Item* before) noexcept {
  if (!now.finds_the_file()) return false;
  const facts::BufferFacts& memory = item.known->memory;
  return (before != nullptr && same_memory(before->known->memory, memory)) ||
         same_memory(gpu::inspect(item.call.address()), memory);
}

}  // namespace

std::uint64_t storage_of(const facts::FileFacts& file) noexcept {
  // The nodes of all drives are in one file system.
  const std::uint64_t node = file.kind == facts::FileKind::block_device ? file.inode : 0;
  return std::uint64_t{file.device} << 32U ^ node;
}

void go_on(Item& item, const paths::Grouping& next, Counts counts) noexcept {
  Known& known = *item.known;
  known.alike = 0;
  known.grouping = next;
  known.storage = next.may_wait ? storage_of(item.file->facts) : 0;
  if (next.group_class != paths::GroupClass::none) return;
  item.known = nullptr;
  if (counts == Counts::no || item.progress.there == 0) return;
  observe::count_path(known.path->traits.id, known.reason, item.call.direction, Outcome::bytes(item.progress.there));
}

// Looks at items one after the other, and asks once for several of a kind.
std::size_t Group::part_as_submitted(std::span<Item*> items, std::span<std::uint16_t> slots) noexcept {
  const Item* before = nullptr;  // that was found
  std::size_t found = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Item& item = *items[i];
    const Known& known = *item.known;
    const bool is_like_before = before != nullptr && known.is_like(*before->known);
    if (is_like_before || (before != nullptr && before->file == item.file)) {
      now_of_[found] = now_of_[found - 1];
    } else {
      now_[found].emplace(item.file->descriptor(), item.file->facts);
      now_of_[found] = static_cast<std::uint16_t>(found);
    }
    if (!is_like_before && !is_there(item, *now_[now_of_[found]], before)) {
      go_on(item, {}, Counts::yes);
      continue;
    }
    before = &item;
    std::swap(items[found], items[i]);
    std::swap(slots[found++], slots[i]);
  }
  return found;
}

Group::Sides::Sides(Item& item, facts::DescriptorCheck& now) noexcept
    : known(*item.known),
      ends{*item.file, now, known.memory, item.call.handle, known.registered},
      looked_at(item.file->options.verify || item.file->explains) {}

bool Group::Sides::are_equal_to_those_of(const Item& item) const noexcept {
  const facts::BufferFacts& memory = item.known->memory;
  return &ends.file == item.file && ends.handle == item.call.handle && ends.registered == item.known->registered &&
         known.memory.base == memory.base && known.memory.size == memory.size && same_memory(known.memory, memory);
}

paths::GroupMover* Group::mover_of(const Known& known) noexcept {
  if (path_ != known.path) {
    for (auto& mover : movers_) mover.reset();
    path_ = known.path;
  }
  auto& mover = movers_[static_cast<std::size_t>(known.grouping.group_class)];
  if (!mover) mover = known.path->group_mover(known.grouping.group_class);
  return mover.get();
}

void Group::run(std::span<Item* const> items, const Options& options, Completion& completion) noexcept {
  const Counts counts = options.bond == transfer::Bond::none ? Counts::yes : Counts::no;
  const Known& first = *items.front()->known;
  const paths::Grouping grouping = first.grouping;
  paths::GroupMover* const mover = mover_of(first);
  if (mover == nullptr) {
    for (Item* const item : items) go_on(*item, {}, counts);
    return;
  }
  const auto mode = first.path->traits.whole_blocks_only ? route::SegmentMode::direct : route::SegmentMode::bounce;
  std::fill_n(told_.begin(), items.size(), false);
  std::size_t sides = 0;
  std::size_t sides_count = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = *items[i];
    const std::uint64_t there = item.progress.there;
    if (i == 0 || !sides_[sides]->are_those_of(item)) {
      sides = i;
      ++sides_count;
      sides_[i].emplace(*items[i], *now_[now_of_[i]]);
    }
    sides_of_[i] = static_cast<std::uint16_t>(sides);
    bytes += item.call.size;
    moved_[i] = {
        &sides_[sides]->ends,
        {item.call.direction, mode, base::FileOffset{static_cast<std::uint64_t>(item.call.file_offset) + there},
         item.call.address() + there, item.call.size - there}};
  }
  Account account(counts == Counts::yes ? options.caller : Caller::part, items.front()->call.direction, bytes,
                  items.size());
  items_ = items;
  completion_ = &completion;
  from_ = options.caller == Caller::batch ? SLUICE_TRACE_FROM_BATCH : 0;
  account_ = counts == Counts::yes ? &account : nullptr;
  asks_again_ = bytes > most_that_asks_once * sides_count;
  {
    const observe::GroupProbe probe(items.front()->call.direction, items.size(), [&] { return bytes; });
    mover->move(std::span(moved_).first(items.size()), grouping, options.bond, *this);
  }
  std::array<std::uint16_t, most_in_a_batch> ended;
  std::size_t count = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (told_[i]) continue;
    const paths::Item& moved = moved_[i];
    if (moved.ended) {
      ended[count++] = static_cast<std::uint16_t>(i);
      continue;
    }
    // What is in place counts, whatever becomes of the rest; one that changes its way counts on both.
    Item& item = *items[i];
    item.progress = {item.progress.there + moved.outcome.count(), moved.stopped};
    go_on(item, moved.alone ? paths::Grouping{} : paths::rest_of(grouping, *item.file, item.call.size), counts);
  }
  end(std::span(ended).first(count), account.so_far());
}

// Some have ended while others are on their way. Once that is told, they may be something else.
void Group::ended(std::span<const std::uint16_t> numbers) noexcept {
  end(numbers, account_ != nullptr ? account_->so_far() : 0);
  for (const std::uint16_t number : numbers) told_[number] = true;
  if (account_ != nullptr) account_->flush();
  completion_->ended(numbers);
}

void Group::end(std::span<const std::uint16_t> numbers, std::int64_t milliseconds) noexcept {
  const facts::DescriptorCheck* asked = nullptr;
  bool is_anothers = false;
  for (const std::uint16_t number : numbers) {
    Item& item = *items_[number];
    const Known& known = *item.known;
    const Sides& sides = *sides_[sides_of_[number]];
    item.outcome = after_prefix(item.progress.there, moved_[number].outcome);
    if (asks_again_ && item.outcome.count() > 0) {
      if (std::exchange(asked, &sides.ends.now) != &sides.ends.now) is_anothers = asked->belongs_to_another();
      if (is_anothers) item.outcome = Outcome::system_error(EBADF);
    }
    item.ended = true;
    item.device = sides.known.memory.device;
    item.path = known.path->traits.id;
    item.reason = known.reason;
    if (sides.looked_at) [[unlikely]]
      look_at(item, sides.ends);
    if (account_ == nullptr) continue;
    observe::entry_done(
        [&] {
          return observe::RequestShape{.direction = item.call.direction,
                                       .fd = item.file->descriptor(),
                                       .offset = static_cast<std::uint64_t>(item.call.file_offset),
                                       .size = item.call.size,
                                       .buffer_offset = item.call.buffer_offset,
                                       .from = from_};
        },
        item.outcome, item.path, known.reason, item.device, std::chrono::milliseconds(milliseconds));
    account_->ended(item, {known.path, known.reason, item.outcome}, milliseconds);
  }
}

void Group::look_at(Item& item, const paths::Ends& ends) noexcept {
  const Known& known = *item.known;
  const Request request{item.call.direction, base::FileOffset{static_cast<std::uint64_t>(item.call.file_offset)},
                        item.call.address(), item.call.size};
  if (item.file->options.verify && item.outcome.count() > 0) item.outcome = verified(request, ends, item.outcome);
  if (item.file->explains) explain_once(*item.file, request, known.memory, *known.path, known.reason);
}

}  // namespace sluice::request
