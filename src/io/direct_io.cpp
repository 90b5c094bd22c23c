// SPDX-License-Identifier: Apache-2.0
// One range by itself: by a ring of this thread's, else in turn.
#include "io/direct_io.h"

#include <array>
#include <cerrno>

#include "io/file_io.h"

namespace sluice::io {

namespace {

using base::Direction;
using base::Outcome;

Outcome move_by_ring(const IoRange& range, Direction direction, Uring& ring) noexcept {
  if (range.memory.empty()) return Outcome::bytes(0);
  DirectQueue queue(ring);
  queue.add(range, direction, 0);
  std::array<DirectQueue::Ended, DirectQueue::most_under_way> ended;
  while (queue.step(ended) == 0) {
  }
  return ended.front().outcome;
}

Outcome move_in_turn(const IoRange& range, Direction direction) noexcept {
  return direction == Direction::read ? read_span(range.fd, range.memory, range.at, range.block)
                                      : write_span(range.fd, range.memory, range.at, range.block);
}

}  // namespace

DirectResult move_direct(const IoRange& range, Direction direction, CompletionMode completion) noexcept {
  bool unpollable = false;
  if (is_polled(completion)) {
    if (const Uring::Use ring = Uring::of_this_thread(completion)) {
      const Outcome outcome = move_by_ring(range, direction, *ring);
      unpollable = outcome.error() == EOPNOTSUPP;
      if (!unpollable && !was_not_tried(outcome.error())) return {outcome, true, false};
    }
  }
  if (const Uring::Use ring = Uring::of_this_thread(CompletionMode::interrupt)) {
    const Outcome outcome = move_by_ring(range, direction, *ring);
    if (!was_not_tried(outcome.error())) return {outcome, false, unpollable};
  }
  return {move_in_turn(range, direction), false, unpollable};
}

}  // namespace sluice::io
