// SPDX-License-Identifier: Apache-2.0
// At level TRACE of the log: one line a transfer, when it has ended. At every other level this costs a load.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "base/strong.h"
#include "observe/log.h"
#include "sluice.h"

namespace sluice::observe {

struct Traced {
  base::Direction direction = base::Direction::read;
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  sluice_path_t path = SLUICE_PATH_POSIX;
  sluice_reason_t reason = SLUICE_REASON_HOST_MEMORY;
};

void write_trace(const Traced& transfer, base::Outcome outcome) noexcept;

inline void trace(const Traced& transfer, base::Outcome outcome) noexcept {
  if (log_enabled(config::LogLevel::trace)) write_trace(transfer, outcome);
}

}  // namespace sluice::observe
