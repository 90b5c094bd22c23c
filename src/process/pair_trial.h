// SPDX-License-Identifier: Apache-2.0
// Whether a file and some device memory have been tried against each other, and trying it.
#pragma once

#include "paths/path.h"
#include "process/records.h"

namespace sluice::process {

// The pair of this file's storage and this memory's device; null where the direct path is out of the question whatever
// a trial says. One load once a file and device have met. The I/O path.
paths::DirectPair* pair_of(File& file, const facts::BufferFacts& memory, base::Direction direction) noexcept;

// How much depends on an answer, when a trial could not be made before or another thread is at it.
enum class Need : std::uint8_t {
  convenient,  // asks again now and then, and does not wait
  pressing,    // asks again each time
  absolute,    // and waits for the other thread: there is no other way to go
};
Need need_of(const Options& options) noexcept;

// Makes the trial of the file's pair if nobody has, on the calling thread.
void try_pair(const paths::OpenFile& file, const facts::BufferFacts& memory, Need need) noexcept;

}  // namespace sluice::process
