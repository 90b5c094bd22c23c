// A request's life: decided, carried segment by segment, checked where asked for, counted.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "base/strong.h"
#include "facts/buffer.h"
#include "facts/machine.h"
#include "paths/path.h"
#include "route/route.h"

namespace sluice::request {

// How the driver's present life wants requests done.
struct Terms {
  route::Rules rules;
  facts::MachineFacts machine;
  bool verify = false;  // SLUICE_VERIFY=1
};

struct Request {
  base::Direction direction = base::Direction::read;
  base::FileOffset at;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  facts::BufferFacts memory;
};

// What came of a request, and which way it went.
struct Result {
  base::Outcome outcome;
  route::Verdict way;
};

// Runs on the calling thread and returns when the last byte is in place. No lock, no heap, no exception.
Result run(const Request& request, const paths::OpenFile& file, const Terms& terms) noexcept;

}  // namespace sluice::request
