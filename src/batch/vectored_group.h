// SPDX-License-Identifier: Apache-2.0
// Where parts of one vectored call stand while they are coalesced. Large: as many are kept as calls were made at the
// same time, up to 32, and lent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "batch/entry.h"

namespace sluice::batch {

struct VectoredGroup {
  std::array<Entry, most_in_a_batch> entries;
  std::array<request::Item*, most_in_a_batch> order;
  std::array<std::uint16_t, most_in_a_batch> slots;
  request::Group carrier;
};

// Empty when all of them are lent, or there is no memory: then parts go one by one. What the entries hold on to goes
// with the loan.
class VectoredLease {
 public:
  VectoredLease() noexcept;
  ~VectoredLease();
  VectoredLease(const VectoredLease&) = delete;
  VectoredLease& operator=(const VectoredLease&) = delete;

  explicit operator bool() const noexcept { return group_ != nullptr; }
  VectoredGroup* operator->() const noexcept { return group_; }

  // The next entry, empty.
  bool is_full() const noexcept { return count_ == most_in_a_batch; }
  std::size_t count() const noexcept { return count_; }
  Entry& add() noexcept { return group_->entries[count_++]; }
  void drop_last() noexcept { group_->entries[--count_] = {}; }
  void clear() noexcept;

 private:
  [[nodiscard]] bool borrow(std::size_t number) noexcept;

  VectoredGroup* group_ = nullptr;
  std::size_t place_ = 0;
  std::size_t count_ = 0;
};

}  // namespace sluice::batch
