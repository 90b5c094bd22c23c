// SPDX-License-Identifier: Apache-2.0
// A request's life: decided, carried segment by segment, checked where asked for, counted.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "base/strong.h"
#include "facts/buffer.h"
#include "paths/path.h"
#include "process/options.h"
#include "route/route.h"

namespace sluice::request {

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
  route::RouteChoice way;
  std::uint64_t counted = 0;  // bytes of the outcome that went another way before, and are counted there
};

// Runs on the calling thread and returns when the last byte is in place. No lock, no heap, no exception.
Result run(const Request& request, const paths::OpenFile& file, const process::Options& options) noexcept;

}  // namespace sluice::request
