// SPDX-License-Identifier: Apache-2.0
// Calls of the driver's on a thread that nothing waits for without an end. While a driver frees memory or loads code,
// such calls come back when all streams of the context have come to rest, and one of these may wait for the thread that
// makes them.
#pragma once

#include <chrono>
#include <functional>

namespace sluice::workers {

// Runs it on a thread that is kept for this. One at a time in the process, so that a driver that answers nothing keeps
// one thread. False: it is at work, or cannot be started; then `work` is not run.
bool run_aside(std::function<void()> work) noexcept;

// The same, behind what it is at: of several such the last. False: it cannot be started.
bool run_behind(std::function<void()> work) noexcept;

// Is it at work? An end of the process waits for it, as it does for transfers.
bool is_aside() noexcept;
// What is begun meanwhile may be at work then. False: it takes longer.
bool wait_for_aside(std::chrono::milliseconds most) noexcept;

// A child of fork has no such thread.
void aside_after_fork_in_child() noexcept;

}  // namespace sluice::workers
