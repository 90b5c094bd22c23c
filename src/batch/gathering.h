// Where parts of one vectored call stand while they go together. Large: a few are kept and lent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "batch/convoy.h"
#include "batch/entry.h"

namespace sluice::batch {

struct Gathering {
  std::array<Entry, most_in_a_batch> entries;
  std::array<Entry*, most_in_a_batch> order;
  std::array<std::uint16_t, most_in_a_batch> slots;
  std::array<Ending, most_in_a_batch> endings;
  Convoy convoy;
};

// Empty when all of them are lent, or there is no memory: then parts go one by one. What the entries hold on to goes
// with the loan.
class GatheringLoan {
 public:
  GatheringLoan() noexcept;
  ~GatheringLoan();
  GatheringLoan(const GatheringLoan&) = delete;
  GatheringLoan& operator=(const GatheringLoan&) = delete;

  explicit operator bool() const noexcept { return gathering_ != nullptr; }
  Gathering* operator->() const noexcept { return gathering_; }

  // The next entry, empty.
  bool is_full() const noexcept { return count_ == most_in_a_batch; }
  std::size_t count() const noexcept { return count_; }
  Entry& add() noexcept { return gathering_->entries[count_++]; }
  void drop_last() noexcept { gathering_->entries[--count_] = {}; }
  void clear() noexcept;

 private:
  Gathering* gathering_ = nullptr;
  std::size_t place_ = 0;
  std::size_t count_ = 0;
};

}  // namespace sluice::batch
