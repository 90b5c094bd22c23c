// SPDX-License-Identifier: Apache-2.0
// Calls of the driver's for a stream that waits, on a thread that nothing waits for without an end. While a driver
// frees memory or loads code, such calls come back when all streams of the context have come to rest, and one of these
// may wait for the thread that makes them.
#pragma once

#include <functional>

namespace sluice::stream {

// Runs it on a thread of its own. One at a time in the process, so that a driver that answers nothing keeps one thread.
// False: one is at work, or no thread can be started; then `work` is not run.
bool run_aside(std::function<void()> work) noexcept;

// Is one at work? An end of the process waits for it, as it does for transfers.
bool is_aside() noexcept;

// A child of fork has no such thread.
void aside_after_fork_in_child() noexcept;

}  // namespace sluice::stream
