// SPDX-License-Identifier: Apache-2.0
// An entry of a submission.
#pragma once

#include <cstdint>

#include "cufile.h"
#include "request/group.h"
#include "request/queued.h"

namespace sluice::batch {

using paths::GroupClass;
using request::most_in_a_batch;

struct Entry : request::Queued {
  void* cookie = nullptr;
  unsigned number = 0;       // in its submission
  std::uint64_t queued = 0;  // in_flight.h
  unsigned cancels = 0;      // of its batch, before it was submitted
};

// How an entry ended, as its event tells.
struct Ending {
  CUfileStatus_t status = CUFILE_COMPLETE;
  std::int64_t result = 0;
};
inline Ending ending_of(const Entry& entry) noexcept {
  const base::Outcome outcome = entry.item.outcome;
  return {outcome.ok() ? CUFILE_COMPLETE : CUFILE_FAILED, outcome.value()};
}

}  // namespace sluice::batch
