// SPDX-License-Identifier: Apache-2.0
// The C API's verbs for batches. All throw base::Failure with the code of the call.
#pragma once

#include <time.h>

#include <cstddef>
#include <optional>
#include <span>

#include "cufile.h"
#include "process/slot_table.h"

namespace sluice::process {
class Process;
}

namespace sluice::batch {

class BatchTable;

void* set_up_batch(process::Process& process, unsigned capacity);

// Checks every entry first: one that is wrong refuses all, and nothing is started. Returns without waiting for storage
// or a device.
void submit_batch(process::Process& process, void* handle, std::span<const CUfileIOParams_t> entries);

std::size_t collect_batch(process::Process& process, void* handle, std::size_t least, std::span<CUfileIOEvents_t> into,
                          const std::optional<timespec>& timeout);

// Entries that have not been begun end as cancelled, the others go on. A handle that names no batch has nothing to
// cancel. False: no entry was under way, or had an event that has not been collected.
bool cancel_batch(process::Process& process, void* handle);

// How many entries have ended without an event since they were cancelled; nullopt where there is no such batch.
std::optional<unsigned> cancelled_in_batch(process::Process& process, void* handle);

// Cancels, and waits for what has begun: afterwards nothing touches the memory of any entry.
void destroy_batch(process::Process& process, void* handle);
// The same of a handle that may name nothing: then false.
bool end_batch(BatchTable& batches, void* handle, process::DrainMode drain_mode);

}  // namespace sluice::batch
