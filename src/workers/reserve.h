// SPDX-License-Identifier: Apache-2.0
// Threads besides the workers, for a large request that several links carry: to read for them takes more processors
// than for one link. They sleep until there is one; a second one has those that the first has nothing more to do for.
#pragma once

#include "workers/job_slot.h"
#include "workers/work_queue.h"

namespace sluice::workers {

// How many there may be: processors that workers leave.
unsigned reserve_count() noexcept;

// All of them, or up to `helpers`, come to the job while this lives; none where two others ask for them. Their numbers
// lie behind those of all workers.
class ReserveScope {
 public:
  ReserveScope(Job& job, unsigned helpers) noexcept : slot_(helpers > 0 ? ask(job, helpers) : nullptr) {}
  ReserveScope(const ReserveScope&) = delete;
  ReserveScope& operator=(const ReserveScope&) = delete;
  ~ReserveScope() {
    if (slot_ != nullptr) slot_->end();
  }

 private:
  static JobSlot* ask(Job& job, unsigned helpers) noexcept;

  JobSlot* const slot_;
};

void reserve_before_fork() noexcept;
void reserve_after_fork(bool in_child) noexcept;

}  // namespace sluice::workers
