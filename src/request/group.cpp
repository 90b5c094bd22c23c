// SPDX-License-Identifier: Apache-2.0
// From items to those of a path, and back.
#include "request/group.h"

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

std::uint64_t bytes_of(std::span<Item* const> items) noexcept {
  std::uint64_t bytes = 0;
  for (const Item* const item : items) bytes += item->call.size;
  return bytes;
}

}  // namespace

std::uint64_t storage_of(const facts::FileFacts& file) noexcept {
  // The nodes of all drives are in one file system.
  const std::uint64_t node = file.kind == facts::FileKind::block_device ? file.inode : 0;
  return std::uint64_t{file.device} << 32U ^ node;
}

bool can_go_together(const Known& one, const Known& other) noexcept {
  if (one.path != other.path || one.grouping != other.grouping || one.storage != other.storage) return false;
  return one.grouping.group_class == paths::GroupClass::direct ||
         (one.memory.context == other.memory.context && one.memory.device == other.memory.device);
}

void go_on(Item& item, const paths::Grouping& next, Counts counts) noexcept {
  Known& known = *item.known;
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
    if (before == nullptr || before->file != item.file) {
      now_[found].emplace(item.file->descriptor(), item.file->facts);
      now_of_[found] = static_cast<std::uint16_t>(found);
    } else {
      now_of_[found] = now_of_[found - 1];
    }
    const bool is_known = before != nullptr && same_memory(before->known->memory, known.memory);
    const bool is_there =
        now_[now_of_[found]]->finds_the_file() && (is_known || same_memory(gpu::inspect(known.address), known.memory));
    if (!is_there) {
      go_on(item, {}, Counts::yes);
      continue;
    }
    before = &item;
    std::swap(items[found], items[i]);
    std::swap(slots[found++], slots[i]);
  }
  return found;
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
  for (std::size_t i = 0; i < items.size(); ++i) {
    told_[i] = false;
    const Item& item = *items[i];
    const Known& known = *item.known;
    const std::uint64_t there = item.progress.there;
    ends_[i].emplace(paths::Ends{*item.file, *now_[now_of_[i]], known.memory, item.call.handle, known.registered});
    const auto mode = known.path->traits.whole_blocks_only ? route::SegmentMode::direct : route::SegmentMode::bounce;
    moved_[i] = {
        &*ends_[i],
        {item.call.direction, mode, base::FileOffset{static_cast<std::uint64_t>(item.call.file_offset) + there},
         known.address + there, item.call.size - there}};
  }
  Account account(counts == Counts::yes ? options.caller : Caller::part, items.front()->call.direction, bytes_of(items),
                  items.size());
  items_ = items;
  completion_ = &completion;
  from_ = options.caller == Caller::batch ? SLUICE_TRACE_FROM_BATCH : 0;
  account_ = counts == Counts::yes ? &account : nullptr;
  {
    const observe::GroupProbe probe(items.front()->call.direction, items.size(), [&] { return bytes_of(items); });
    mover->move(std::span(moved_).first(items.size()), grouping, options.bond, *this);
  }
  const std::int64_t milliseconds = account.so_far();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (told_[i]) continue;
    Item& item = *items[i];
    const paths::Item& moved = moved_[i];
    if (moved.ended) {
      end(static_cast<std::uint16_t>(i), milliseconds);
      continue;
    }
    // What is in place counts, whatever becomes of the rest; one that changes its way counts on both.
    item.progress = {item.progress.there + moved.outcome.count(), moved.stopped};
    go_on(item, moved.alone ? paths::Grouping{} : paths::rest_of(grouping, *item.file, item.call.size), counts);
  }
}

// Some have ended while others are on their way. Once that is told, they may be something else.
void Group::ended(std::span<const std::uint16_t> numbers) noexcept {
  const std::int64_t milliseconds = account_ != nullptr ? account_->so_far() : 0;
  for (const std::uint16_t number : numbers) {
    end(number, milliseconds);
    told_[number] = true;
  }
  if (account_ != nullptr) account_->flush();
  completion_->ended(numbers);
}

void Group::end(std::uint16_t number, std::int64_t milliseconds) noexcept {
  Item& item = *items_[number];
  const Known& known = *item.known;
  const process::File& file = *item.file;
  item.outcome = after_prefix(item.progress.there, moved_[number].outcome);
  item.ended = true;
  item.device = known.memory.device;
  item.path = known.path->traits.id;
  item.reason = known.reason;
  const bool checks = file.options.verify && item.outcome.count() > 0;
  if (checks || file.session->config->explain) {
    const base::FileOffset at{static_cast<std::uint64_t>(item.call.file_offset)};
    const Request request{item.call.direction, at, known.address, item.call.size};
    if (checks) item.outcome = verified(request, *ends_[number], item.outcome);
    if (file.session->config->explain) explain_once(*item.file, request, known.memory, *known.path, known.reason);
  }
  if (account_ == nullptr) return;
  observe::entry_done({item.call.direction, file.descriptor(), static_cast<std::uint64_t>(item.call.file_offset),
                       item.call.size, item.call.buffer_offset, from_},
                      item.outcome, item.path, known.reason, item.device, std::chrono::milliseconds(milliseconds));
  account_->ended(item, {known.path, known.reason, item.outcome}, milliseconds);
}

}  // namespace sluice::request
