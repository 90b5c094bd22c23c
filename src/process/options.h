// SPDX-License-Identifier: Apache-2.0
// What one life of the driver does for all of its requests.
#pragma once

#include <cstdint>

#include "facts/machine.h"
#include "io/disk_queue.h"
#include "io/uring.h"
#include "paths/bounce_copier.h"
#include "paths/posix.h"
#include "route/route.h"

namespace sluice::process {

// How the driver's present life wants requests done.
struct Options {
  route::Rules rules;
  facts::MachineFacts machine;
  paths::CopyMode copy_mode = paths::CopyMode::usual;
  paths::SmallReads small_reads = paths::SmallReads::automatic;
  io::DiskWay disk_way = io::DiskWay::automatic;
  bool verify = false;                                            // SLUICE_VERIFY=1
  io::CompletionMode completion = io::CompletionMode::interrupt;  // of direct transfers of at most this size:
  std::uint64_t polled_up_to = 0;                                 // larger ones end by interrupt
};

}  // namespace sluice::process
