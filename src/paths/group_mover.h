// SPDX-License-Identifier: Apache-2.0
// Items of a path that go together.
#pragma once

#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "paths/grouping.h"
#include "paths/path.h"
#include "transfer/bond.h"

namespace sluice::paths {

// Moves groups; for one thread at a time. Large: made with the first group of its kind, and used again.
class GroupMover {
 public:
  GroupMover() = default;
  GroupMover(const GroupMover&) = delete;
  GroupMover& operator=(const GroupMover&) = delete;
  virtual ~GroupMover() = default;

  // All are of this grouping and fit each other, and their descriptors are the files'. Bonded, they are one transfer in
  // their order (transfer/bond.h; what a drive moves itself has no order). `completion` is told of those that end while
  // others are on their way.
  virtual void move(std::span<Item> items, const Grouping& grouping, transfer::Bond bond,
                    Completion& completion) noexcept = 0;
};

}  // namespace sluice::paths
