// SPDX-License-Identifier: Apache-2.0
// Each member goes mapping by mapping, as a transfer by itself does (p2pdma.cpp), and ends as that one would.
#include "paths/p2pdma/group.h"

#include <algorithm>
#include <cerrno>

#include "paths/p2pdma/direct_pair.h"
#include "paths/p2pdma/p2pdma.h"

namespace sluice::paths {

using base::FileOffset;
using base::Outcome;
using io::DirectQueue;

namespace {

Piece rest_of(const DirectMember& member) noexcept {
  const Piece& piece = member.piece;
  return {piece.direction, piece.carry, FileOffset{piece.at.value + member.done}, piece.address + member.done,
          piece.length - member.done};
}

}  // namespace

void DirectGroup::run(std::span<DirectMember> members, io::Uring& ring, io::CompletionMode completion,
                      Listener& listener) noexcept {
  members_ = members;
  polled_ = io::is_polled(completion);
  next_ = again_count_ = mapped_ = whole_count_ = 0;
  DirectQueue queue(ring);
  for (;;) {
    while (queue.has_room() && begin_one(queue)) {
    }
    if (queue.is_empty()) break;
    std::array<DirectQueue::Ended, DirectQueue::most_under_way> ended;
    const unsigned count = queue.step(ended);
    for (unsigned i = 0; i < count; ++i) end_mapping(queue, ended[i]);
    if (whole_count_ > 0) listener.in_place(std::span(whole_).first(whole_count_));
    whole_count_ = 0;
  }
}

// False: nothing can be begun now.
bool DirectGroup::begin_one(DirectQueue& queue) noexcept {
  if (again_count_ == 0 && next_ == members_.size()) return false;
  const auto index = static_cast<std::uint16_t>(again_count_ > 0 ? again_[--again_count_] : next_++);
  DirectMember& member = members_[index];
  if (member.pair->reach() != facts::TrialResult::proven) return true;  // refused meanwhile: from then on the CPU's
  const Piece rest = rest_of(member);
  gpu::Provider& provider = member.pair->provider();
  const gpu::P2pMapping mapping = provider.map(*member.memory, rest.address, rest.length);
  if (!mapping && mapped_ > 0) {
    // A device that maps little at a time may have room when another mapping is gone.
    again_[again_count_++] = index;
    return false;
  }
  const std::uint64_t length = mapping ? usable_bytes(*member.facts, mapping, rest.length) : 0;
  if (length == 0) {
    if (mapping) provider.release(mapping);
    give_up_direct(*member.pair, *member.memory, rest, Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE));
    member.stopped = true;
    return true;
  }
  mappings_[index] = mapping;
  ++mapped_;
  queue.add({member.fd, rest.at, {mapping.address, length}, std::max(1U, member.facts->offset_alignment)},
            rest.direction, index);
  return true;
}

void DirectGroup::end_mapping(const DirectQueue& queue, const DirectQueue::Ended& ended) noexcept {
  const auto index = static_cast<std::uint16_t>(ended.tag);
  DirectMember& member = members_[index];
  const Outcome moved = ended.outcome;
  member.pair->provider().release(mappings_[index]);
  --mapped_;
  if (moved.ok()) member.pair->count_transfer(polled_);
  const Piece asked = rest_of(member);
  member.done += moved.count();
  if (member.done == member.piece.length) {
    whole_[whole_count_++] = index;
  } else if (queue.lost()) {
    return;
  } else if (polled_ && moved.error() == EOPNOTSUPP) {
    member.pair->cannot_be_polled();
  } else if (moved.count() == 0) {
    give_up_direct(*member.pair, *member.memory, asked, moved);
    member.stopped = true;
  } else {
    again_[again_count_++] = index;  // behind what was in the way, the path tells what that is
  }
}

}  // namespace sluice::paths
