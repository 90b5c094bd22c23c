// SPDX-License-Identifier: Apache-2.0
// Which threads are inside a transfer: for the end of the process, which waits for them, and for a thread that ends
// something in the middle of its own transfer, which must not wait for itself.
#pragma once

#include <cstdint>

#include "process/slot_table.h"

namespace sluice::process {

// Lives as long as one transfer does on the calling thread; one within another counts once. Costs two plain stores
// into memory of the thread's own.
class InFlight {
 public:
  InFlight() noexcept;
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
};

// Lives as long as this thread holds a pin outside a transfer, perhaps for long: the process's end does not wait for
// it, but the thread itself must not (a signal handler in the midst of it that ends the process).
class PinScope {
 public:
  PinScope() noexcept;
  ~PinScope();
  PinScope(const PinScope&) = delete;
  PinScope& operator=(const PinScope&) = delete;
};

// Makes exit() wait, before any handler and destructor that was registered earlier, for the transfers that are in
// flight then, for the thread that loads our kernels, and for the one that is aside of streams: at most 5 seconds all
// told, after which the log tells what was left. Transfers that begin meanwhile are not waited for. May be called
// again, to come before handlers that were registered since.
void wait_for_transfers_at_exit() noexcept;

// False when waiting for a transfer could never end: this thread is inside one itself or holds a pin, or the process
// ends and has given up on those that are left.
bool waiting_can_end() noexcept;

// Ending something waits for the transfers that use it, for as long as that can come to an end.
inline DrainMode drain_mode_now() noexcept {
  return waiting_can_end() ? DrainMode::until_the_last_user_left : DrainMode::none;
}

// What is queued now, to begin later, perhaps on another thread, gets a number. May this queued work start,
// with an InFlight that lives since? Not when exit() has come meanwhile: exit() would not wait for it.
std::uint64_t queue_number() noexcept;
bool may_begin(std::uint64_t queued) noexcept;

// The child of a fork has none of its parent's other threads.
void transfers_after_fork_in_child() noexcept;

}  // namespace sluice::process
