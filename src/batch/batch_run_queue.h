// SPDX-License-Identifier: Apache-2.0
// Batches that have entries waiting to be begun. Workers come for them, take entry after entry, and go to sleep when
// there is none left.
#pragma once

namespace sluice::process {
class Process;
}

namespace sluice::batch {

class Batch;

// The batch has something to begin. False: there are no workers, or the batch was dropped; the caller does the work.
// With a pin of the batch.
bool schedule(process::Process& process, Batch& batch) noexcept;

// For the end of a batch, with a pin of it: no worker comes to it any more; those that are at it have pins.
void unschedule(Batch& batch) noexcept;

// Around fork: the child has no batches.
void run_queue_before_fork() noexcept;
void run_queue_after_fork(bool in_child) noexcept;

}  // namespace sluice::batch
