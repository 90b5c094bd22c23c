// SPDX-License-Identifier: Apache-2.0
// An entry of a submission, with the right to use what it names.
#pragma once

#include <cstdint>

#include "cufile.h"
#include "facts/buffer.h"
#include "io/uring.h"
#include "paths/path.h"
#include "process/records.h"
#include "request/transfer.h"
#include "route/route.h"

namespace sluice::batch {

// Which entries it may be coalesced with (batch/classifier.h).
using BatchClass = paths::GroupClass;
inline constexpr std::size_t batch_classes = paths::group_classes;

// What is known of an entry that goes with others.
struct Coalescing {
  BatchClass batch_class = BatchClass::none;
  paths::CopyMode copy_mode = paths::CopyMode::usual;
  io::CompletionMode completion = io::CompletionMode::interrupt;  // of the drive's own transfers
  std::uint8_t max_groups = 1;  // how many groups of such entries may be under way at a time
  std::uint64_t storage = 0;    // that it may wait for, and for how long nobody knows; 0: none
  std::uint64_t address = 0;
  std::uint64_t file_size = 0;  // when it is carried; ~0 where it means nothing, and before
  facts::BufferFacts memory;
  const paths::Path* path = nullptr;
  route::Reason reason = SLUICE_REASON_HOST_MEMORY;
};

struct Entry {
  request::Call call;
  void* cookie = nullptr;
  unsigned number = 0;       // in its submission
  std::uint64_t queued = 0;  // in_flight.h
  unsigned cancels = 0;      // of its batch, before it was submitted
  process::FileTable::Pin file;
  process::BufferTable::Pin registration;
  Coalescing coalescing;
  request::Progress progress;  // left by a group that did not carry all of it
};

// How an entry ended, as its event tells.
struct Ending {
  CUfileStatus_t status = CUFILE_COMPLETE;
  std::int64_t result = 0;
};

}  // namespace sluice::batch
