// SPDX-License-Identifier: Apache-2.0
// What registrations, allocations and files say of a plan's ranges before they are cut (cut.h). One transfer never
// reaches over the end of a registration, or of an allocation.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "plan/cut.h"
#include "process/process.h"

namespace sluice::plan {

// Of one plan that is being submitted; looking at much memory takes a while.
class RangePlaces final : public Places {
 public:
  RangePlaces(process::Process& process, base::Direction direction) noexcept
      : process_(process), direction_(direction) {}
  bool are_one(const Range& one, const Range& next) override;
  std::uint64_t piece_bytes(const Range& range) override;
  // The device that others may lend their links to for this range; -1: none.
  int lent_to(const Range& range) noexcept;

 private:
  int ask(const Range& range) noexcept;
  const void* registration_of(const Range& range) noexcept;

  process::Process& process_;
  const base::Direction direction_;
  const Range* asked_for_ = nullptr;
  int lent_to_ = -1;
  std::uint64_t begin_ = 0;  // of the allocation that was seen last
  std::uint64_t end_ = 0;
};

}  // namespace sluice::plan
