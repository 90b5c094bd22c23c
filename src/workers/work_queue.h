// Worker threads that lend a hand with work that somebody waits for. They sleep while there is nothing to do; the
// thread that offers work does not depend on them.
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

  // Does a share of it, and returns when there is nothing left to begin. Called by lanes, concurrently; no two that are
  // at it have the same number, a lane always has the same, and 0 is the offerer's.
  virtual void run_helper(unsigned number) noexcept = 0;

 protected:
  ~Job() = default;
};

// Work on offer for as long as this lives. Its end waits for the lanes that are at it, which have at most one piece
// to finish each. A piece may have to wait for storage: a lane that writes into the page cache is gone for as long as
// the kernel keeps writers back.
class JobScope {
 public:
  // For up to `hands` lanes. Without a free place on the board, or without lanes, the offerer does all by itself.
  JobScope(Job& job, unsigned helpers) noexcept;
  JobScope(const JobScope&) = delete;
  JobScope& operator=(const JobScope&) = delete;
  ~JobScope();

 private:
  int slot_ = -1;
};

// Has lanes do work that nobody waits for on the spot. There is one such work in a process, which lives as long as the
// process: up to `hands` lanes come to it, at least one whatever else they are asked for, and each leaves when there is
// nothing left to begin. For work that may wait for storage there are some lanes more than for offers. False: there
// are no lanes, and there will not be any; the caller does the work.
bool schedule_background(Job& job, unsigned helpers) noexcept;

// An offer for that many hands will come within microseconds: lanes that sleep are woken now, all at once.
void wake_workers(unsigned helpers) noexcept;

// How many offers stand on the board just now: how many requests are under way that want hands.
unsigned active_jobs() noexcept;

// Would each of so many offers have a lane's help?
bool workers_suffice(unsigned jobs) noexcept;

// How many lanes work is offered to at most here: what the process may use of the machine's processors, less the
// caller's own. 0: none.
unsigned worker_count() noexcept;

// Around fork: the child starts without lanes and makes its own when it needs some.
void workers_before_fork() noexcept;
void workers_after_fork(bool in_child) noexcept;

}  // namespace sluice::workers
