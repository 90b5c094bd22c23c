// SPDX-License-Identifier: Apache-2.0
// Worker threads, and the queue of jobs that they help with. They sleep while there is nothing to do; the thread that
// submits a job does not depend on them.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::workers {

// Work that several threads can do at once.
class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Does a share of it, and returns when there is nothing left to begin. Called by workers, concurrently; no two that
  // are at it have the same number, a worker always has the same, and 0 is the submitter's.
  virtual void run_helper(unsigned number) noexcept = 0;

 protected:
  ~Job() = default;
};

// A job that is in the queue for as long as this lives. Its end waits for the workers that are at it, which have at
// most one piece to finish each. A piece may have to wait for storage: a worker that writes into the page cache is gone
// for as long as the kernel keeps writers back.
class JobScope {
 public:
  // For up to `helpers` workers. Without a free slot in the queue, or without workers, the submitter does all by
  // itself.
  JobScope(Job& job, unsigned helpers) noexcept;
  JobScope(const JobScope&) = delete;
  JobScope& operator=(const JobScope&) = delete;
  ~JobScope();

  // There is a piece at most for each of those at it: from now on the next job counts, and this one does not.
  void is_nearly_through() noexcept;

 private:
  int slot_ = -1;
  bool counts_ = true;  // among those under way
};

// Has workers do a job that no thread waits for on the spot, in the background. There is one such job of a kind in a
// process, which lives as long as the process; those of the first kind come first. Up to `helpers` workers come to it,
// at least one whatever else they are asked for, and each leaves when there is nothing left to begin. As it may wait
// for storage, there are some workers more than for other jobs. False: there are no workers, and there will not be any;
// the caller does the work.
enum class Background : std::uint8_t { batches, plans };
bool schedule_background(Background kind, Job& job, unsigned helpers) noexcept;

// A job for that many helpers will come within microseconds: workers that sleep are woken now, all at once.
void wake_workers(unsigned helpers) noexcept;

// How many jobs are in the queue just now: how many requests are under way that want helpers.
unsigned active_jobs() noexcept;

// Would each of so many jobs have a helper?
bool workers_suffice(unsigned jobs) noexcept;

// How many workers may help a job at most: what the process may use of the machine's processors, less the
// caller's own. 0: none.
unsigned worker_count() noexcept;

// How many come to jobs in the background.
unsigned background_worker_count() noexcept;

// Around fork: the child starts without workers and makes its own when it needs some.
void workers_before_fork() noexcept;
void workers_after_fork(bool in_child) noexcept;

}  // namespace sluice::workers
