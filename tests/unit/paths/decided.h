// SPDX-License-Identifier: Apache-2.0
// Decisions of the library's table for a file that is not there, as if a trial had come to a result.
#pragma once

#include <span>

#include "facts/buffer.h"
#include "facts/file.h"
#include "facts/machine.h"
#include "facts/trial_result.h"
#include "route/route.h"

namespace sluice::paths {

struct Situation {
  facts::FileFacts file;
  facts::BufferFacts buffer;
  facts::MachineFacts machine;
  route::Rules rules;
  facts::TrialResult reach = facts::TrialResult::untried;
};

struct Decided {
  route::Path path;
  route::Reason reason;
  route::Segments cut;

  std::span<const route::Segment> segments() const { return cut.all(); }
};

Decided decided(const Situation& situation, const route::Shape& shape);

}  // namespace sluice::paths
