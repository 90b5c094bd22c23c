// SPDX-License-Identifier: Apache-2.0
// One range of an O_DIRECT file into or out of memory that the kernel pins: cut into chunks, many at a time.
#pragma once

#include "base/outcome.h"
#include "base/strong.h"
#include "io/direct_queue.h"
#include "io/uring.h"

namespace sluice::io {

struct DirectResult {
  base::Outcome outcome = base::Outcome::bytes(0);
  bool polled = false;      // it ended by polling, without an interrupt
  bool unpollable = false;  // polling was asked for, and the system cannot poll this file
};

// Moves the range, offset and length of which are whole blocks. Answers how much of it, from its start on, is in
// place: short at the end of the file, or where the system refuses in mid-way; an error says that nothing was moved.
// By a ring of this thread's, whose interruptions and short transfers are dealt with here; where there is no ring, by
// pread and pwrite. A file that cannot be polled is waited for by interrupt.
DirectResult move_direct(const IoRange& range, base::Direction direction, CompletionMode completion) noexcept;

}  // namespace sluice::io
