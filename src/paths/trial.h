// SPDX-License-Identifier: Apache-2.0
// The trial before trust: one verified read from a file into device memory of our own, by whatever way is to be
// trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/outcome.h"
#include "facts/extents.h"
#include "facts/trial_result.h"
#include "gpu/session.h"
#include "paths/path.h"
#include "paths/tried_pair.h"

namespace sluice::paths {

struct Finding {
  std::optional<facts::TrialResult> reach;  // nothing: there was nothing to try on
  std::string words;
};

// What a way brings to its trial: device memory, and the reading.
class TrialWay {
 public:
  // In the log.
  virtual const char* name() const noexcept = 0;
  // Of file offsets, lengths and addresses: what transfers will use at the least.
  virtual std::uint64_t block() const noexcept = 0;
  // With the session's context current: memory for so many bytes, or in words why there is none.
  virtual std::optional<std::string> take_memory(std::uint64_t size) = 0;
  virtual std::uint64_t address() const noexcept = 0;
  // Whole blocks of the file to where the memory begins.
  virtual base::Outcome read(const facts::Extent& place) = 0;
  // What it says where a read has answered an error, and where bytes that were reported have not arrived.
  virtual Finding refused(base::Outcome read) const = 0;
  virtual facts::TrialResult lost() const noexcept = 0;

 protected:
  ~TrialWay() = default;
};

// Reads some bytes of the file twice, into host memory and, by the way, into device memory that held their opposite,
// and compares. Settles the pair, or postpones it where this file is nothing to try on. For the thread that has
// claimed the trial. The memory is of the device, and its context decides which one is used. Writes to no file.
void make_trial(const Ends& ends, TriedPair& pair, TrialWay& way) noexcept;

// What came of any trial, for the log: the words for one that succeeded, and for any other.
void tell_trial(const TriedPair& pair, const Finding& finding, const char* way, const char* proven,
                const char* not_proven);

// The name of an error of either kind.
std::string error_text(base::Outcome outcome);

}  // namespace sluice::paths
