// SPDX-License-Identifier: Apache-2.0
#include "workers/work_queue.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/event_count.h"
#include "base/never_destroyed.h"
#include "base/spin_backoff.h"
#include "observe/probes.h"
#include "workers/job_slot.h"
#include "workers/thread_budget.h"
#include "workers/threads.h"

namespace sluice::workers {

namespace {

constexpr unsigned most_workers = 11;
// Background jobs may wait for storage: more workers than there are processors are at them at once.
constexpr unsigned fewest_for_background = 4;

// A worker that has just worked looks around for this long before it sleeps: the next request of a loop finds it awake.
// While requests stand, the next one of a loop is still to come: the device may be some 100 us behind the readers. So
// the window begins with their end, but lasts no longer after its own work than the second one.
constexpr auto spin_window = std::chrono::microseconds(60);
constexpr auto longest_spin_window = std::chrono::microseconds(200);

void run_worker(unsigned number) noexcept;

struct WorkQueue {
  std::array<JobSlot, 32> slots;
  std::array<JobSlot, 2> background;  // of schedule_background(), by kind; their work never changes once there is some
  base::EventCount event;
  std::atomic<int> sleeping{0};
  base::EventCount background_event;  // workers that take no jobs sleep by themselves: they swallow no event of one
  std::atomic<int> background_sleeping{0};
  std::atomic<unsigned> jobs{0};    // in the queue just now
  std::atomic<unsigned> demand{0};  // helpers that the last job asked for
  std::atomic<int> busy{0};         // workers that are at some work
  Threads threads{.name = "sluice-work", .run = run_worker};
};

WorkQueue& work_queue() {
  static base::NeverDestroyed<WorkQueue> instance;
  return instance.get();
}

ThreadBudget workforce() noexcept {
  return {processor_count(), worker_count()};
}

// How many workers all requests together want: those that are awake may be at another's.
unsigned wanted_by_all(const WorkQueue& all) noexcept {
  const unsigned jobs = std::max(1U, all.jobs.load(std::memory_order_relaxed));
  return wanted_by_all(workforce(), jobs, all.demand.load(std::memory_order_relaxed));
}

bool takes_jobs(unsigned number) noexcept {
  return number < worker_count();
}

// Of those that take jobs.
int awake_workers(const WorkQueue& all) noexcept {
  const unsigned there_are = std::min(all.threads.running.load(std::memory_order_relaxed), worker_count());
  return static_cast<int>(there_are) - all.sleeping.load(std::memory_order_seq_cst);
}

// As many as are wanted and not awake already. Waking costs the submitter some microseconds each, so it wakes one,
// which wakes the next.
void wake(WorkQueue& all) noexcept {
  if (all.sleeping.load(std::memory_order_seq_cst) == 0) return;
  if (awake_workers(all) < static_cast<int>(wanted_by_all(all))) all.event.advance(1);
}

// The submitter does not do what is in the background: one worker that sleeps is woken unless one spins just now.
void wake_for_background(WorkQueue& all) noexcept {
  const int sleeping = all.sleeping.load(std::memory_order_seq_cst);
  const int others = all.background_sleeping.load(std::memory_order_seq_cst);
  const int looking = static_cast<int>(all.threads.running.load(std::memory_order_relaxed)) - sleeping - others -
                      all.busy.load(std::memory_order_seq_cst);
  if (looking > 0) return;
  if (sleeping > 0) {
    all.event.advance(1);
  } else if (others > 0) {
    all.background_event.advance(1);
  }
}

bool wants_a_helper(const JobSlot& slot) noexcept {
  return slot.wants_a_helper();
}

bool wants_background_helpers(const WorkQueue& all) noexcept {
  return std::any_of(all.background.begin(), all.background.end(), wants_a_helper);
}

bool is_background(const WorkQueue& all, const JobSlot& slot) noexcept {
  return &slot >= all.background.data() && &slot < all.background.data() + all.background.size();
}

// Joins the job of one slot and does its share. False when no helper is wanted there.
bool help_at(WorkQueue& all, JobSlot& slot, unsigned number) noexcept {
  std::uint64_t seen = slot.word.load(std::memory_order_relaxed);
  while (JobSlot::helpers(seen) > 0) {
    // Acquire: the job as it was when its helpers were asked for.
    if (!slot.word.compare_exchange_weak(seen, seen - JobSlot::one_helper + JobSlot::one_at_it,
                                         std::memory_order_acquire))
      continue;
    // Counted before the look at the background: a caller that schedules there counts on this worker no more, or this
    // worker sees the call.
    all.busy.fetch_add(1, std::memory_order_seq_cst);
    if (JobSlot::helpers(seen) > 1 && !is_background(all, slot)) wake(all);
    if (wants_background_helpers(all)) wake_for_background(all);
    {
      const observe::HelpProbe probe(slot.request.load(std::memory_order_relaxed));
      slot.job.load(std::memory_order_relaxed)->run_helper(number + 1);
    }
    all.busy.fetch_sub(1, std::memory_order_relaxed);
    // Release: what this worker did is seen by the submitter that finds no thread at it.
    slot.word.fetch_sub(JobSlot::one_at_it, std::memory_order_release);
    return true;
  }
  return false;
}

// Joins the first job that wants a helper, does its share. False when none does. Jobs come before the
// background: a thread waits for them.
bool help_once(WorkQueue& all, unsigned number) noexcept {
  const auto helps = [&](JobSlot& slot) { return help_at(all, slot, number); };
  return (takes_jobs(number) && std::any_of(all.slots.begin(), all.slots.end(), helps)) ||
         std::any_of(all.background.begin(), all.background.end(), helps);
}

bool any_job_wants_a_helper(const WorkQueue& all, unsigned number) noexcept {
  return wants_background_helpers(all) ||
         (takes_jobs(number) && std::any_of(all.slots.begin(), all.slots.end(), wants_a_helper));
}

// The workers of low numbers stay awake between requests, as many as the last request wanted; the others go to sleep as
// soon as no request wants them.
bool may_stay_awake(const WorkQueue& all, unsigned number) noexcept {
  return number < wanted_by_all(all);
}

// Looks for work, and does it, for as long as there is some to be expected.
void spin_for_work(WorkQueue& all, unsigned number) noexcept {
  auto now = std::chrono::steady_clock::now();
  auto until = now + spin_window;
  auto at_most = now + longest_spin_window;
  do {
    if (help_once(all, number)) {
      now = std::chrono::steady_clock::now();
      until = now + spin_window;
      at_most = now + longest_spin_window;
    } else {
      base::pause(16);
      now = std::chrono::steady_clock::now();
      if (all.jobs.load(std::memory_order_relaxed) > 0) until = std::min(now + spin_window, at_most);
    }
  } while (may_stay_awake(all, number) && now < until);
}

void run_worker(unsigned number) noexcept {
  WorkQueue& all = work_queue();
  base::EventCount& event = takes_jobs(number) ? all.event : all.background_event;
  std::atomic<int>& sleeping = takes_jobs(number) ? all.sleeping : all.background_sleeping;
  for (;;) {
    spin_for_work(all, number);
    const std::uint32_t seen = event.now();
    // Counted before the last look: a job submitted after it finds a worker to wake.
    sleeping.fetch_add(1, std::memory_order_seq_cst);
    if (!any_job_wants_a_helper(all, number)) event.wait_beyond(seen, std::nullopt);
    sleeping.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace

JobScope::JobScope(Job& job, unsigned helpers_wanted) noexcept {
  WorkQueue& all = work_queue();
  const unsigned jobs = all.jobs.fetch_add(1, std::memory_order_relaxed) + 1;
  const unsigned most = std::min(
      helpers_wanted,
      helpers_for_one(workforce(), jobs, static_cast<unsigned>(std::max(0, all.busy.load(std::memory_order_relaxed)))));
  if (most == 0) return;
  all.demand.store(most, std::memory_order_relaxed);
  all.threads.start(worker_count());
  for (std::size_t i = 0; i < all.slots.size(); ++i) {
    JobSlot& slot = all.slots[i];
    if (!slot.take()) continue;
    slot_ = static_cast<int>(i);
    slot.ask(job, observe::request_of_job(), most);
    wake(all);
    return;
  }
}

void JobScope::is_nearly_through() noexcept {
  if (counts_) work_queue().jobs.fetch_sub(1, std::memory_order_relaxed);
  counts_ = false;
}

JobScope::~JobScope() {
  is_nearly_through();
  if (slot_ < 0) return;
  work_queue().slots[static_cast<std::size_t>(slot_)].end();
}

bool schedule_background(Background kind, Job& job, unsigned helpers_wanted) noexcept {
  WorkQueue& all = work_queue();
  const unsigned there_may_be = background_worker_count();
  all.threads.start(there_may_be);
  if (all.threads.running.load(std::memory_order_relaxed) == 0) return false;
  JobSlot& slot = all.background[static_cast<std::size_t>(kind)];
  slot.job.store(&job, std::memory_order_relaxed);
  const std::uint64_t wanted = std::clamp(helpers_wanted, 1U, there_may_be);
  std::uint64_t seen = slot.word.load(std::memory_order_relaxed);
  // Sequentially consistent with a worker's going to sleep and with its beginning of other work, as for jobs.
  while (!slot.word.compare_exchange_weak(
      seen, seen + (wanted - std::min(wanted, JobSlot::helpers(seen))) * JobSlot::one_helper,
      std::memory_order_seq_cst)) {
  }
  wake_for_background(all);
  return true;
}

void wake_workers(unsigned helpers_wanted) noexcept {
  WorkQueue& all = work_queue();
  const unsigned most = std::min(helpers_wanted, worker_count());
  if (most == 0) return;
  all.demand.store(most, std::memory_order_relaxed);
  all.threads.start(worker_count());
  if (const int awake = awake_workers(all); awake < static_cast<int>(most)) {
    all.event.advance(static_cast<int>(most) - awake);
  }
}

unsigned active_jobs() noexcept {
  return work_queue().jobs.load(std::memory_order_relaxed);
}

bool workers_suffice(unsigned jobs) noexcept {
  return !is_crowd(workforce(), jobs);
}

// Jobs are for as many workers as there are processors, background jobs for all. At least one takes nothing else: those
// that do may all be held by files that do not answer.
unsigned background_worker_count() noexcept {
  return std::max(worker_count() + 1, fewest_for_background);
}

unsigned worker_count() noexcept {
  return std::min(processor_count(), most_workers + 1) - 1;
}

void workers_before_fork() noexcept {
  processor_count();  // what a thread that is counting just now would leave unfinished in the child
  work_queue().threads.starting.lock();
}

void workers_after_fork(bool in_child) noexcept {
  WorkQueue& all = work_queue();
  if (in_child) {
    // The work in the queue was that of threads that this process does not have.
    for (JobSlot& slot : all.slots) slot.forget();
    for (JobSlot& slot : all.background) slot.word.store(0, std::memory_order_relaxed);
    all.busy.store(0, std::memory_order_relaxed);
    all.threads.forget();
    all.sleeping.store(0, std::memory_order_relaxed);
    all.background_sleeping.store(0, std::memory_order_relaxed);
  }
  all.threads.starting.unlock();
}

}  // namespace sluice::workers
