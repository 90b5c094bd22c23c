// SPDX-License-Identifier: Apache-2.0
// What is grouped with what, and what waits for what.
#include "batch/class_queue.h"

#include <algorithm>
#include <new>

namespace sluice::batch {

bool ClassQueue::provide(std::unique_ptr<Group>& group) noexcept {
  if (!group) group.reset(new (std::nothrow) Group);
  return group != nullptr;
}

// Null when as many are under way as there may be, or there is no memory for one more.
Group* ClassQueue::idle_group() noexcept {
  for (std::unique_ptr<Group>& group : groups_) {
    if (provide(group) && !group->busy) return group.get();
  }
  return nullptr;
}

bool ClassQueue::none_is_under_way() const noexcept {
  return std::none_of(groups_.begin(), groups_.end(),
                      [](const std::unique_ptr<Group>& group) { return group && group->busy; });
}

bool ClassQueue::waits_for_a_group(const request::Known& known) const noexcept {
  const auto alike = std::count_if(groups_.begin(), groups_.end(), [&](const std::unique_ptr<Group>& group) {
    return group && group->busy && request::can_go_together(group->first, known);
  });
  return alike >= known.grouping.max_groups;
}

unsigned ClassQueue::ready() noexcept {
  if (!changed_) return ready_;
  changed_ = false;
  ready_ = 0;
  if (waiting_.count() == 0 || idle_group() == nullptr) return 0;
  if (none_is_under_way()) return ready_ = waiting_.count();
  const request::Known* before = nullptr;
  bool waits = false;
  for (unsigned i = 0; i < waiting_.count(); ++i) {
    const request::Known& known = entries_[waiting_.at(i)].known;
    if (before == nullptr || !known.is_like(*before)) waits = waits_for_a_group(known);
    if (!waits) ++ready_;
    before = &known;
  }
  return ready_;
}

Group* ClassQueue::claim() noexcept {
  if (ready() == 0) return nullptr;
  Group* const group = idle_group();
  changed_ = true;
  group->count = 0;
  for (unsigned left = waiting_.count(); left > 0; --left) {
    const std::uint16_t slot = waiting_.pop();
    const request::Known& known = entries_[slot].known;
    const bool joins = group->count == 0 ? !waits_for_a_group(known)
                                         : group->count < most_ && request::can_go_together(group->first, known);
    if (!joins) {
      waiting_.push(slot);
      continue;
    }
    if (group->count == 0) group->first = known;
    group->slots[group->count++] = slot;
  }
  group->busy = true;
  return group;
}

}  // namespace sluice::batch
