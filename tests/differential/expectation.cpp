// SPDX-License-Identifier: Apache-2.0
#include "differential/expectation.h"

#include <algorithm>
#include <cstdint>

#include "differential/answers.h"

namespace sluice::differential {
namespace {

// Where a transfer begins in its buffer, by words that may come round.
std::ptrdiff_t begin_of(const Move& move) {
  return static_cast<std::ptrdiff_t>(static_cast<std::uint64_t>(move.place.address - move.place.buffer->address) +
                                     static_cast<std::uint64_t>(move.shift));
}

bool lies_inside(const Move& move, std::size_t size) {
  const std::ptrdiff_t begin = begin_of(move);
  const std::size_t room = move.place.buffer->size;
  return begin >= 0 && static_cast<std::size_t>(begin) <= room && size <= room - static_cast<std::size_t>(begin);
}

}  // namespace

void Expectation::add(const Move& move) {
  if (move.place.buffer == nullptr) {
    if (!move.reads && move.count > 0 && move.file != nullptr) move.file->is_known = false;
  } else if (move.count >= 0 && !given_up_) {
    move.reads ? read(move) : write(move);
  }
}

void Expectation::give_up() {
  given_up_ = true;
  memory_.clear();
}

Expectation::Memory& Expectation::memory(const Buffer& buffer) {
  const auto [found, is_new] = memory_.try_emplace(&buffer);
  if (is_new) found->second = {buffer.known, !buffer.uncertain};
  return found->second;
}

void Expectation::read(const Move& move) {
  Memory& into = memory(*move.place.buffer);
  const auto count = static_cast<std::size_t>(move.count);
  if (move.file == nullptr || !move.file->can_be_told() || move.offset < 0) {
    into.is_known = into.is_known && count == 0;
    return;
  }
  const std::vector<char>& holds = move.file->holds;
  const auto offset = static_cast<std::size_t>(move.offset);
  const std::size_t there = offset < holds.size() ? holds.size() - offset : 0;
  const std::size_t most = std::min(move.size, there);
  if (count > most || (count < most && lies_inside(move, move.size))) count_is_wrong_ = true;
  if (count > there || !lies_inside(move, count)) {
    into.is_known = into.is_known && count == 0;
    return;
  }
  std::copy_n(holds.data() + std::min(offset, holds.size()), count, into.bytes.data() + begin_of(move));
}

void Expectation::write(const Move& move) {
  if (move.file == nullptr || !move.file->can_be_told() || move.offset < 0) return;
  const auto count = static_cast<std::size_t>(move.count);
  const auto offset = static_cast<std::size_t>(move.offset);
  if (count > move.size || (count < move.size && lies_inside(move, move.size))) count_is_wrong_ = true;
  if (count == 0) return;
  const auto known = memory_.find(move.place.buffer);
  const bool is_known = known == memory_.end() ? !move.place.buffer->uncertain : known->second.is_known;
  if (!is_known || !lies_inside(move, count)) {
    move.file->uncertain = true;
    return;
  }
  if (offset > kMostTold || count > kMostTold - offset) {
    move.file->is_known = false;
    return;
  }
  std::vector<char>& holds = move.file->holds;
  holds.resize(std::max(holds.size(), offset + count));
  const std::vector<char>& from = known == memory_.end() ? move.place.buffer->known : known->second.bytes;
  std::copy_n(from.data() + begin_of(move), count, holds.data() + offset);
}

void Expectation::tell_counts() const {
  if (count_is_wrong_) answers().add(" wrong=count");
}

const std::vector<char>* Expectation::of(const Buffer& buffer) const {
  const auto found = memory_.find(&buffer);
  return found == memory_.end() || !found->second.is_known ? nullptr : &found->second.bytes;
}

}  // namespace sluice::differential
