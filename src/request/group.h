// SPDX-License-Identifier: Apache-2.0
// Items that go together: what carries them from their turn to their end.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "facts/descriptor_check.h"
#include "paths/group_mover.h"
#include "request/account.h"
#include "request/item.h"
#include "request/run.h"

namespace sluice::request {

inline constexpr unsigned most_in_a_batch = paths::most_in_any_group;

// Whether two items may go with each other. What waits for one storage never goes with what waits for another: a
// storage that does not answer holds transfers of that storage alone.
inline bool can_go_together(const Known& one, const Known& other) noexcept {
  if (one.is_like(other)) return true;
  if (one.path != other.path || one.grouping != other.grouping || one.storage != other.storage) return false;
  return one.grouping.group_class == paths::GroupClass::direct ||
         (one.memory.context == other.memory.context && one.memory.device == other.memory.device);
}

// Gives an item that its group could not carry to its end the others that its rest may go with. One that changes its
// way counts on both, unless others count.
enum class Counts : bool { no, yes };
void go_on(Item& item, const paths::Grouping& next, Counts counts) noexcept;

// A number for what files have in common that may keep a transfer waiting.
std::uint64_t storage_of(const facts::FileFacts& file) noexcept;

// For one thread at a time. Large.
class Group final : private Completion {
 public:
  // What was found when they were submitted may be a while ago. An item whose descriptor belongs to another file by
  // now, or whose memory is another allocation or none, comes behind the others, with its slot, and goes by itself:
  // that tells what is wrong. Answers how many are as they were submitted; these may be run.
  std::size_t part_as_submitted(std::span<Item*> items, std::span<std::uint16_t> slots) noexcept;

  // The first so many of them, in this order; see request::run().
  void run(std::span<Item* const> items, const Options& options, Completion& completion) noexcept;

 private:
  void ended(std::span<const std::uint16_t> numbers) noexcept override;
  void end(std::span<const std::uint16_t> numbers, std::int64_t milliseconds) noexcept;
  static void look_at(Item& item, const paths::Ends& ends) noexcept;
  paths::GroupMover* mover_of(const Known& known) noexcept;

  // Of the present run.
  std::span<Item* const> items_;
  Completion* completion_ = nullptr;
  std::uint16_t from_ = 0;      // as a trace tells
  bool asks_again_ = false;     // in the end, whether descriptors are the files'
  Account* account_ = nullptr;  // none: they are one transfer, which is counted by others

  std::array<std::optional<facts::DescriptorCheck>, most_in_a_batch> now_;  // of a file's first item
  std::array<std::uint16_t, most_in_a_batch> now_of_;                       // by item
  // Of an item and those behind it that have the same. Its own copy of what is known: what item and registration say
  // may be another's once the item has ended, while others are on their way.
  struct Sides {
    Sides(Item& item, facts::DescriptorCheck& now) noexcept;
    Sides(const Sides&) = delete;
    Sides& operator=(const Sides&) = delete;
    bool are_those_of(const Item& item) const noexcept {
      return known.is_like(*item.known) || are_equal_to_those_of(item);
    }
    bool are_equal_to_those_of(const Item& item) const noexcept;

    Known known;
    paths::Ends ends;
    bool looked_at;  // each transfer: verified, or explained
  };
  std::array<std::optional<Sides>, most_in_a_batch> sides_;
  std::array<std::uint16_t, most_in_a_batch> sides_of_;  // by item
  std::array<paths::Item, most_in_a_batch> moved_;
  std::array<bool, most_in_a_batch> told_;
  // Made with their first use; of one path, as a rule.
  const paths::Path* path_ = nullptr;
  std::array<std::unique_ptr<paths::GroupMover>, paths::group_classes> movers_;
};

}  // namespace sluice::request
