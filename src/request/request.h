// A request's life: decided, carried segment by segment, checked where asked for, counted.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "base/strong.h"
#include "engine/disk_queue.h"
#include "engine/uring.h"
#include "facts/buffer.h"
#include "facts/machine.h"
#include "paths/mover.h"
#include "paths/path.h"
#include "paths/posix.h"
#include "route/route.h"

namespace sluice::request {

// How the driver's present life wants requests done.
struct Terms {
  route::Rules rules;
  facts::MachineFacts machine;
  paths::Manner manner = paths::Manner::usual;
  paths::SmallReads small_reads = paths::SmallReads::automatic;
  engine::DiskWay disk_way = engine::DiskWay::automatic;
  bool verify = false;                                            // SLUICE_VERIFY=1
  engine::Completion completion = engine::Completion::interrupt;  // of direct transfers of at most this size:
  std::uint64_t polled_up_to = 0;                                 // larger ones end by interrupt
};

struct Request {
  base::Direction direction = base::Direction::read;
  base::FileOffset at;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  facts::BufferFacts memory;
  bool stopped = false;  // the rest of one that the drive did not move all of: it is the CPU's
};

// What came of a request, and which way it went: of one that changed its way, the last one.
struct Result {
  base::Outcome outcome;
  route::Verdict way;
  std::uint64_t counted = 0;  // bytes of the outcome that went another way before, and are counted there
};

// Runs on the calling thread and returns when the last byte is in place. No lock, no heap, no exception.
Result run(const Request& request, const paths::OpenFile& file, const Terms& terms) noexcept;

}  // namespace sluice::request
