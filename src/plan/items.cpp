// SPDX-License-Identifier: Apache-2.0
#include "plan/items.h"

namespace sluice::plan {

bool Front::wait_for(std::size_t first, const std::optional<timespec>& deadline) const noexcept {
  for (;;) {
    const std::uint32_t seen = event.now();
    if (has_reached(first)) return true;
    if (!event.wait_beyond(seen, deadline)) return has_reached(first);
  }
}

Items::Items(std::span<const Range> ranges) : states_(ranges.size()), front_(std::make_shared<Front>()) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    states_[i].size = states_[i].there = ranges[i].size;
    bytes_ += ranges[i].size;
  }
}

void Items::begin() noexcept {
  for (State& state : states_) {
    if (state.parts_left == 0) end(state);
  }
  tell();
}

// Parts of an item end in any order: what counts is where the first of them came short.
void Items::has_come(std::uint32_t item, const PartOfItem& part) noexcept {
  State& state = states_[item];
  in_place_ += part.there;
  state.path = part.path;
  state.reason = part.reason;
  state.cancelled = state.cancelled || part.cancelled;
  const std::uint64_t end_of_part = part.begin + part.there;
  if (part.there < part.wanted && end_of_part < state.there) {
    state.there = end_of_part;
    state.error = part.error;
  }
  if (--state.parts_left == 0) end(state);
}

void Items::end(State& state) noexcept {
  state.state = SLUICE_ITEM_DONE;
  if (state.error != 0) {
    state.state = SLUICE_ITEM_FAILED;
    ++failed_;
  } else if (state.cancelled) {
    state.state = SLUICE_ITEM_CANCELLED;
    ++cancelled_;
  }
  ++ended_;
}

void Items::tell() noexcept {
  while (in_front_ < states_.size() && has_ended(in_front_)) ++in_front_;
  front_->ended.store(in_front_, std::memory_order_release);
  front_->event.advance();
}

sluice_item_result_t Items::result_of(std::size_t item) const noexcept {
  const State& state = states_[item];
  const bool ended = state.state != SLUICE_ITEM_WAITING;
  return {state.state, state.error, ended ? state.there : 0, state.path, state.reason};
}

void Items::fill(sluice_plan_counts_t& progress) const noexcept {
  progress.items = states_.size();
  progress.items_ended = ended_;
  progress.items_in_front = in_front_;
  progress.items_failed = failed_;
  progress.items_cancelled = cancelled_;
  progress.bytes = bytes_;
  progress.bytes_in_place = in_place_;
}

}  // namespace sluice::plan
