// SPDX-License-Identifier: Apache-2.0
// Chunks in flight, each carried to its end. There are as many places for ranges as for chunks: one that is cut to
// its end has a chunk on its way, and while one is being cut no other is added.
#include "io/direct_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/spin_backoff.h"

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
  if (cut_ == nobody) return;
  Transfer& transfer = transfers_[cut_];
  for (std::size_t slot = 0; slot < chunks_.size() && transfer.next < transfer.stop; ++slot) {
    Chunk& chunk = chunks_[slot];
    if (chunk.busy) continue;
    chunk = {cut_, transfer.next, std::min(longest_chunk, transfer.range.memory.size() - transfer.next), 0, 0, 0, true};
    transfer.next += chunk.length;
    ++transfer.busy;
    ++busy_;
    submit(slot);
  }
  if (transfer.next >= transfer.stop) cut_ = nobody;
}

// From the start of the block that the last answer stopped in: O_DIRECT knows whole blocks only.
void DirectQueue::submit(std::size_t slot) noexcept {
  Chunk& chunk = chunks_[slot];
  const Transfer& transfer = transfers_[chunk.transfer];
  const IoRange& range = transfer.range;
  chunk.from = chunk.done - chunk.done % range.block;
  const std::uint64_t begin = chunk.begin + chunk.from;
  ring_.add({.direction = transfer.direction,
             .fd = range.fd,
             .address = range.memory.data() + begin,
             .length = static_cast<std::uint32_t>(chunk.length - chunk.from),
             .at = FileOffset{range.at.value + begin},
             .tag = slot});
}

void DirectQueue::settle(const UringCompletion& answer) noexcept {
  const auto slot = static_cast<std::size_t>(answer.tag);
  Chunk& chunk = chunks_[slot];
  if (answer.result < 0) {
    const int error = -answer.result;
    const bool passing = error == EAGAIN || was_not_tried(error);
    const bool again = error == EINTR || (passing && ++chunk.refusals < base::most_refusals_in_a_row);
    return again ? submit(slot) : finish(chunk, error);
  }
  chunk.refusals = 0;
  const std::uint64_t reached = chunk.from + static_cast<std::uint64_t>(answer.result);
  if (reached <= chunk.done) {
    return finish(chunk, transfers_[chunk.transfer].direction == Direction::write ? ENOSPC : 0);
  }
  chunk.done = std::min(reached, chunk.length);
  if (chunk.done < chunk.length) return submit(slot);
  finish(chunk, 0);
}

void DirectQueue::finish(Chunk& chunk, int error) noexcept {
  chunk.busy = false;
  --busy_;
  Transfer& transfer = transfers_[chunk.transfer];
  --transfer.busy;
  const std::uint64_t end = chunk.begin + chunk.done;
  if (chunk.done < chunk.length && end < transfer.stop) {
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
  if (cut_ == nobody) return;
  Transfer& transfer = transfers_[cut_];
  if (transfer.next < transfer.stop) {
    transfer.stop = transfer.next;
    transfer.error = error;
  }
  cut_ = nobody;
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
