// SPDX-License-Identifier: Apache-2.0
// Chunks in flight, each carried to its end. There are as many places for ranges as for chunks: one that is cut to
// its end has a chunk on its way, and while one is being cut no other is added.
#include "io/direct_queue.h"

#include <algorithm>
#include <optional>

namespace sluice::io {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;

constexpr std::uint64_t longest_chunk = std::uint64_t{1} << 20;

}  // namespace

void DirectQueue::add(const IoRange& range, Direction direction, std::uint32_t tag) noexcept {
  std::size_t place = 0;
  while (transfers_[place].taken) ++place;
  transfers_[place] = {range, direction, tag, 0, range.memory.size(), 0, 0, true};
  ++underway_;
  cut_ = place;
  cut_more();
}

// Nothing is begun behind a place where the range has come to its end.
void DirectQueue::cut_more() noexcept {
  if (cut_ == none) return;
  Transfer& transfer = transfers_[cut_];
  for (std::size_t slot = 0; slot < chunks_.size() && transfer.next < transfer.stop; ++slot) {
    Chunk& chunk = chunks_[slot];
    if (chunk.busy) continue;
    const IoRange& range = transfer.range;
    chunk = {.transfer = cut_,
             .begin = transfer.next,
             .span = {.direction = transfer.direction,
                      .fd = range.fd,
                      .memory = range.memory.data() + transfer.next,
                      .length = std::min(longest_chunk, range.memory.size() - transfer.next),
                      .at = FileOffset{range.at.value + transfer.next},
                      .block = range.block},
             .busy = true};
    transfer.next += chunk.span.length;
    ++transfer.busy;
    ++busy_;
    chunk.span.submit(ring_, slot);
  }
  if (transfer.next >= transfer.stop) cut_ = none;
}

void DirectQueue::settle(const UringCompletion& answer) noexcept {
  Chunk& chunk = chunks_[static_cast<std::size_t>(answer.tag)];
  if (const std::optional<int> end = chunk.span.settle(ring_, answer, was_not_tried)) finish(chunk, *end);
}

void DirectQueue::finish(Chunk& chunk, int error) noexcept {
  chunk.busy = false;
  --busy_;
  Transfer& transfer = transfers_[chunk.transfer];
  --transfer.busy;
  const std::uint64_t end = chunk.begin + chunk.span.done;
  if (chunk.span.done < chunk.span.length && end < transfer.stop) {
    transfer.stop = end;
    transfer.error = error;
  }
}

// The ring takes nothing more, and has nothing of ours any more.
void DirectQueue::lose(int error) noexcept {
  lost_ = true;
  for (Chunk& chunk : chunks_) {
    if (chunk.busy) finish(chunk, error);
  }
  if (cut_ == none) return;
  Transfer& transfer = transfers_[cut_];
  if (transfer.next < transfer.stop) {
    transfer.stop = transfer.next;
    transfer.error = error;
  }
  cut_ = none;
}

unsigned DirectQueue::collect(std::span<Ended, most_under_way> ended) noexcept {
  unsigned count = 0;
  for (std::size_t place = 0; place < transfers_.size(); ++place) {
    Transfer& transfer = transfers_[place];
    if (!transfer.taken || transfer.busy > 0 || place == cut_) continue;
    const bool nothing = transfer.stop == 0 && transfer.error != 0;
    ended[count++] = {transfer.tag, nothing ? Outcome::system_error(transfer.error) : Outcome::bytes(transfer.stop)};
    transfer.taken = false;
    --underway_;
  }
  return count;
}

unsigned DirectQueue::step(std::span<Ended, most_under_way> ended) noexcept {
  std::array<UringCompletion, Uring::depth> answers;
  const int count = ring_.wait(answers);
  if (count < 0) {
    lose(-count);
  } else {
    for (int i = 0; i < count; ++i) settle(answers[static_cast<std::size_t>(i)]);
    cut_more();
  }
  return collect(ended);
}

}  // namespace sluice::io
