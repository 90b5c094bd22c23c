// SPDX-License-Identifier: Apache-2.0
// Each member goes mapping by mapping, as a transfer by itself does (p2pdma.cpp), and ends as that one would.
#include "paths/p2pdma/group.h"

#include <algorithm>
#include <cerrno>

#include "paths/p2pdma/p2pdma.h"

namespace sluice::paths {

using base::FileOffset;
using base::Outcome;
using io::DirectQueue;

namespace {

std::uint64_t done_of(const Item& item) noexcept {
  return item.outcome.count();
}

Piece rest_of(const Item& item) noexcept {
  const Piece& piece = item.piece;
  const std::uint64_t done = done_of(item);
  return {piece.direction, piece.carry, FileOffset{piece.at.value + done}, piece.address + done, piece.length - done};
}

}  // namespace

void DirectGroup::move(std::span<Item> items, const Grouping& grouping, transfer::Bond /*bond*/,
                       Completion& completion) noexcept {
  const io::Uring::Use ring = io::Uring::of_this_thread(grouping.completion);
  if (!ring) return;
  items_ = items;
  polled_ = io::is_polled(grouping.completion);
  next_ = again_count_ = mapped_ = whole_count_ = 0;
  for (std::size_t i = 0; i < items.size(); ++i) pairs_[i] = pair_of(items[i].ends->file, items[i].ends->memory);
  DirectQueue queue(*ring);
  for (;;) {
    while (queue.has_room() && begin_one(queue)) {
    }
    if (queue.is_empty()) break;
    std::array<DirectQueue::Ended, DirectQueue::most_under_way> ended;
    const unsigned count = queue.step(ended);
    for (unsigned i = 0; i < count; ++i) end_mapping(queue, ended[i]);
    if (whole_count_ > 0) completion.ended(std::span(whole_).first(whole_count_));
    whole_count_ = 0;
  }
}

// False: nothing can be begun now.
bool DirectGroup::begin_one(DirectQueue& queue) noexcept {
  if (again_count_ == 0 && next_ == items_.size()) return false;
  const auto index = static_cast<std::uint16_t>(again_count_ > 0 ? again_[--again_count_] : next_++);
  Item& item = items_[index];
  DirectPair* const pair = pairs_[index];
  // Refused meanwhile: from then on the CPU's.
  if (pair == nullptr || pair->reach() != facts::TrialResult::proven) return true;
  const File& file = item.ends->file;
  const Piece rest = rest_of(item);
  gpu::Provider& provider = pair->provider();
  const gpu::P2pMapping mapping = provider.map(item.ends->memory, rest.address, rest.length);
  if (!mapping && mapped_ > 0) {
    // A device that maps little at a time may have room when another mapping is gone.
    again_[again_count_++] = index;
    return false;
  }
  const std::uint64_t length = mapping ? usable_bytes(file.facts, mapping, rest.length) : 0;
  if (length == 0) {
    if (mapping) provider.release(mapping);
    give_up_direct(*pair, item.ends->memory, rest, Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE));
    item.stopped = true;
    return true;
  }
  mappings_[index] = mapping;
  ++mapped_;
  queue.add({file.descriptor(), rest.at, {mapping.address, length}, block_of(file)}, rest.direction, index);
  return true;
}

void DirectGroup::end_mapping(const DirectQueue& queue, const DirectQueue::Ended& ended) noexcept {
  const auto index = static_cast<std::uint16_t>(ended.tag);
  Item& item = items_[index];
  DirectPair& pair = *pairs_[index];
  const Outcome moved = ended.outcome;
  pair.provider().release(mappings_[index]);
  --mapped_;
  if (moved.ok()) pair.count_moved(polled_);
  const Piece asked = rest_of(item);
  item.outcome = Outcome::bytes(done_of(item) + moved.count());
  if (done_of(item) == item.piece.length) {
    item.ended = true;
    whole_[whole_count_++] = index;
  } else if (queue.lost()) {
    return;
  } else if (polled_ && moved.error() == EOPNOTSUPP) {
    pair.cannot_be_polled();
  } else if (moved.count() == 0) {
    give_up_direct(pair, item.ends->memory, asked, moved);
    item.stopped = true;
  } else {
    again_[again_count_++] = index;  // behind what was in the way, the path tells what that is
  }
}

}  // namespace sluice::paths
