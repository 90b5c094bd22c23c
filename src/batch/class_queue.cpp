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

bool ClassQueue::waits_for_a_group(const Entry& entry) const noexcept {
  const auto alike = std::count_if(groups_.begin(), groups_.end(), [&](const std::unique_ptr<Group>& group) {
    return group && group->busy && request::can_go_together(group->first, entry.known);
  });
  return alike >= entry.known.grouping.max_groups;
}

unsigned ClassQueue::ready() noexcept {
  if (!changed_) return ready_;
  changed_ = false;
  ready_ = 0;
  if (waiting_.count() == 0 || idle_group() == nullptr) return 0;
  if (none_is_under_way()) return ready_ = waiting_.count();
  for (unsigned i = 0; i < waiting_.count(); ++i) {
    if (!waits_for_a_group(entries_[waiting_.at(i)])) ++ready_;
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
    const Entry& entry = entries_[slot];
    const bool joins = group->count == 0 ? !waits_for_a_group(entry)
                                         : group->count < most_ && request::can_go_together(group->first, entry.known);
    if (!joins) {
      waiting_.push(slot);
      continue;
    }
    if (group->count == 0) group->first = entry.known;
    group->slots[group->count++] = slot;
  }
  group->busy = true;
  return group;
}

}  // namespace sluice::batch
