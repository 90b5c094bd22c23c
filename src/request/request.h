// SPDX-License-Identifier: Apache-2.0
// A request: decided, carried segment by segment, checked where asked for.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "base/strong.h"
#include "paths/path.h"
#include "paths/table.h"
#include "route/route.h"

namespace sluice::request {

struct Request {
  base::Direction direction = base::Direction::read;
  base::FileOffset at;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  bool stopped = false;  // the rest of one that a path has begun and does not go on with
  bool queued = false;   // it has waited since the program asked for it
};

// What came of a request, and which way it went: of one that changed its way, the last one.
struct Result {
  base::Outcome outcome;
  const paths::Path* path = nullptr;  // none: the descriptor was another file's, and nothing was begun
  route::Reason reason = SLUICE_REASON_HOST_MEMORY;
  std::uint64_t counted = 0;  // bytes of the outcome that went another way before, and are counted there
};

// A program may close a file while its bytes are under way, and have the number given to another one: these are as much
// that one's, and nothing tells how many. So transfers of more than this ask once more in the end.
inline constexpr std::uint64_t most_that_asks_once = std::uint64_t{128} << 10U;

// Runs on the calling thread and returns when the last byte is in place.
Result carry_out(const Request& request, const paths::Ends& ends) noexcept;

}  // namespace sluice::request
