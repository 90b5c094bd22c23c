// SPDX-License-Identifier: Apache-2.0
#include "paths/decided.h"

#include <memory>
#include <utility>

#include "paths/p2pdma/p2pdma.h"
#include "paths/table.h"

namespace sluice::paths {

namespace {

// The file, and the pair of its storage and the device.
class Staged {
 public:
  explicit Staged(const Situation& situation)
      : options_{situation.rules, situation.machine},
        session_(attachments_of_session(options_)),
        file_(-1, facts::FileFacts(situation.file), options_, nullptr),
        memory_(situation.buffer) {
    attach_to_file(file_, session_);
    if (DirectPair* const pair = pair_of(file_, memory_)) pair->settle(situation.reach, "");
  }

  Decision decide(const route::Shape& shape) const { return paths::decide({file_, memory_, shape.direction}, shape); }

 private:
  Options options_;
  SessionAttachments session_;
  File file_;
  facts::BufferFacts memory_;
};

}  // namespace

Decided decided(const Situation& situation, const route::Shape& shape) {
  const Decision decision = Staged(situation).decide(shape);
  return {decision.path->traits.id, decision.reason, decision.segments};
}

}  // namespace sluice::paths
