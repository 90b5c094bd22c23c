// SPDX-License-Identifier: Apache-2.0
// Threads besides the workers, for a large request that several links carry: to read for them takes more processors
// than for one link. They sleep until there is one, and one request has them at a time.
#pragma once

#include "workers/work_queue.h"

namespace sluice::workers {

// How many there may be: processors that workers leave.
unsigned reserve_count() noexcept;

// All of them, or up to `helpers`, come to the job while this lives; none where another request has them. Their numbers
// lie behind those of all workers.
class ReserveScope {
 public:
  ReserveScope(Job& job, unsigned helpers) noexcept : has_them_(helpers > 0 && take(job, helpers)) {}
  ReserveScope(const ReserveScope&) = delete;
  ReserveScope& operator=(const ReserveScope&) = delete;
  ~ReserveScope() {
    if (has_them_) give_back();
  }

 private:
  static bool take(Job& job, unsigned helpers) noexcept;
  static void give_back() noexcept;

  const bool has_them_;
};

void reserve_before_fork() noexcept;
void reserve_after_fork(bool in_child) noexcept;

}  // namespace sluice::workers
