// SPDX-License-Identifier: Apache-2.0
// What this folder does around a fork of the process.
#pragma once

#include "observe/log.h"
#include "observe/recorder.h"
#include "observe/statistics.h"
#include "observe/thread_slot.h"

namespace sluice::observe {

inline void before_fork() noexcept {
  statistics_before_fork();
  log_before_fork();
}

inline void after_fork(bool in_child) noexcept {
  log_after_fork();
  if (in_child) thread_slots_after_fork_in_child();
  statistics_after_fork(in_child);
  if (in_child) recorder_after_fork_in_child();
}

}  // namespace sluice::observe
