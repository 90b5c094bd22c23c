// SPDX-License-Identifier: Apache-2.0
// Entries of one class that wait to be coalesced, and the groups of them that are under way. All under the batch's
// lock, but for what is said to be a group's own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "batch/entry.h"

namespace sluice::batch {

// A row of slots, first in, first out.
class SlotQueue {
 public:
  explicit SlotQueue(unsigned capacity) : capacity_(capacity), slots_(capacity) {}
  unsigned count() const noexcept { return count_; }
  std::uint16_t at(unsigned number) const noexcept { return slots_[place(number)]; }
  void push(std::uint16_t slot) noexcept { slots_[place(count_++)] = slot; }
  std::uint16_t pop() noexcept {
    const std::uint16_t slot = slots_[first_];
    first_ = place(1);
    --count_;
    return slot;
  }

 private:
  // So far behind the first; `number` is at most the capacity.
  unsigned place(unsigned number) const noexcept {
    const unsigned sum = first_ + number;
    return sum < capacity_ ? sum : sum - capacity_;
  }

  const unsigned capacity_;
  std::vector<std::uint16_t> slots_;
  unsigned first_ = 0;
  unsigned count_ = 0;
};

// Entries that are under way together.
struct Group {
  bool busy = false;
  request::Known first;  // what all of them have in common with

  // Of the thread that has claimed it, until it is given back.
  std::unique_ptr<request::Group> carrier;  // made with its first use; kept
  unsigned count = 0;
  std::array<std::uint16_t, most_in_a_batch> slots;
  std::array<request::Item*, most_in_a_batch> items;
  std::array<bool, most_in_a_batch> notified;  // these have had their events
};

class ClassQueue {
 public:
  ClassQueue(std::vector<Entry>& entries, unsigned capacity, GroupClass group_class)
      : entries_(entries), most_(static_cast<unsigned>(paths::most_in_a_group(group_class))), waiting_(capacity) {}

  // False: there is no memory for one, and none would ever be claimed.
  bool has_a_group() noexcept { return groups_.front() || provide(groups_.front()); }
  void push(std::uint16_t slot) noexcept {
    waiting_.push(slot);
    changed_ = true;
  }
  unsigned count() const noexcept { return waiting_.count(); }
  std::uint16_t pop() noexcept {
    changed_ = true;
    return waiting_.pop();
  }

  // How many could begin now. What could go with groups that are under way may have to wait for one to end: more will
  // have come by then, and they share a launch.
  unsigned ready() noexcept;
  // All that may go with the first one that could begin; the others keep their order. Null: there is none.
  Group* claim() noexcept;
  void give_back(Group& group) noexcept {
    group.busy = false;
    changed_ = true;
  }

 private:
  static constexpr std::size_t most_groups = 4;
  static bool provide(std::unique_ptr<Group>& group) noexcept;
  Group* idle_group() noexcept;
  bool none_is_under_way() const noexcept;
  bool waits_for_a_group(const request::Known& known) const noexcept;

  std::vector<Entry>& entries_;
  const unsigned most_;
  SlotQueue waiting_;
  std::array<std::unique_ptr<Group>, most_groups> groups_;  // made with their first use
  unsigned ready_ = 0;
  bool changed_ = false;
};

}  // namespace sluice::batch
