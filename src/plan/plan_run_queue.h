// SPDX-License-Identifier: Apache-2.0
// Plans that have parts waiting to be begun. A worker comes for one, does one piece of it, and looks for other work
// before it comes again: a plan may last for seconds.
#pragma once

namespace sluice::process {
class Process;
}

namespace sluice::plan {

class Plan;

// The plan has something to begin. False: there are no workers, or the plan was dropped; the caller does the work. With
// a pin of the plan.
bool schedule(process::Process& process, Plan& plan) noexcept;

// For the end of a plan, with a pin of it: no worker comes to it any more; those that are at it have pins.
void unschedule(Plan& plan) noexcept;

// Around fork: the child has no plans.
void run_queue_before_fork() noexcept;
void run_queue_after_fork(bool in_child) noexcept;

}  // namespace sluice::plan
