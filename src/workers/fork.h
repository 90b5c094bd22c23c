// SPDX-License-Identifier: Apache-2.0
// What this folder does around a fork of the process.
#pragma once

#include "workers/active_count.h"
#include "workers/aside.h"
#include "workers/reserve.h"
#include "workers/slow_disk_gauge.h"
#include "workers/work_queue.h"

namespace sluice::workers {

inline void before_fork() noexcept {
  workers_before_fork();
  reserve_before_fork();
}

inline void after_fork(bool in_child) noexcept {
  if (in_child) {
    active_counts::forget();
    slow_disk_gauge.forget();
    aside_after_fork_in_child();
  }
  reserve_after_fork(in_child);
  workers_after_fork(in_child);
}

}  // namespace sluice::workers
