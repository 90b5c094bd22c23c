// SPDX-License-Identifier: Apache-2.0
// With which number a transfer that failed is answered. NVIDIA's library has few: EPERM and EIO stand for memory that
// is not there, a file that was not opened for writing, a size that no count tells. A program that looks at them finds
// the same here; the cause is in the log and in sluice_last_error(). Which of the two it is follows from what the
// pointer of the call means, as random scripts over that library show.
#pragma once

#include "base/outcome.h"
#include "process/process.h"
#include "request/item.h"

namespace sluice::request {

// By the pointer that was registered, and longer than that, or beyond its end: offset and size are added as words.
bool exceeds_registered(process::Process& process, const Call& call) noexcept;

// For errno, and for the event of a batch.
int answer_to(const Call& call, int error) noexcept;

// For the count of a call in a stream that was registered with these flags, 0 for none. `failed` is no success.
base::Outcome answer_in_stream(process::Process& process, const process::File& file, const Call& call, unsigned flags,
                               base::Outcome failed) noexcept;

}  // namespace sluice::request
