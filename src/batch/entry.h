// SPDX-License-Identifier: Apache-2.0
// An entry of a submission, with the right to use what it names.
#pragma once

#include <cstdint>

#include "cufile.h"
#include "process/records.h"
#include "request/group.h"
#include "request/item.h"

namespace sluice::batch {

using paths::GroupClass;
using request::most_in_a_batch;

struct Entry {
  request::Item item;
  request::Known known;  // what the item points to where it may go with others
  void* cookie = nullptr;
  unsigned number = 0;       // in its submission
  std::uint64_t queued = 0;  // in_flight.h
  unsigned cancels = 0;      // of its batch, before it was submitted
  process::FileTable::Pin file;
  process::BufferTable::Pin registration;

  GroupClass group_class() const noexcept {
    return item.known != nullptr ? item.known->grouping.group_class : GroupClass::none;
  }
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
