// SPDX-License-Identifier: Apache-2.0
// An entry of a submission.
#pragma once

#include <cstdint>

#include "base/processor.h"
#include "cufile.h"
#include "request/group.h"
#include "request/queued.h"

namespace sluice::batch {

using paths::GroupClass;
using request::most_in_a_batch;

// Filled by one thread and carried by another: four lines of memory, of which that one needs the third, where stands
// what all entries that are alike have in common, for their reason alone.
struct alignas(base::line_bytes) Entry : request::Queued {
  void* cookie = nullptr;
  std::uint64_t queued = 0;  // in_flight.h
  unsigned number = 0;       // in its submission
  unsigned cancels = 0;      // of its batch, before it was submitted
};
static_assert(sizeof(Entry) == 256);

// How an entry ended, as its event tells. (Arrays of them stand on stacks, and are not filled beforehand.)
struct Ending {
  CUfileStatus_t status;
  std::int64_t result;
};
inline Ending ending_of(const Entry& entry) noexcept {
  const base::Outcome outcome = entry.item.outcome;
  return {outcome.ok() ? CUFILE_COMPLETE : CUFILE_FAILED, outcome.value()};
}

}  // namespace sluice::batch
