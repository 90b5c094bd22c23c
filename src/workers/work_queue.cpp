// SPDX-License-Identifier: Apache-2.0
// A queue of slots; each is one word, so that joining a job is one compare-and-swap:
//   bits 0..7   workers that are at it
//   bits 8..15  helpers still wanted
//   bits 16..   how often this slot was used: an old observation cannot join a new job
// A worker that has counted itself in keeps the job from ending.
#include "workers/work_queue.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "base/event_count.h"
#include "base/never_destroyed.h"
#include "base/processor.h"
#include "base/spin_backoff.h"
#include "facts/read.h"
#include "observe/log.h"
#include "observe/probes.h"
#include "workers/thread_budget.h"

namespace sluice::workers {

namespace {

constexpr unsigned most_workers = 11;
// Background jobs may wait for storage: more workers than there are processors are at them at once.
constexpr unsigned fewest_for_background = 4;
constexpr std::uint64_t one_at_it = 1;
constexpr std::uint64_t one_helper = 1U << 8U;
constexpr std::uint64_t one_use = 1U << 16U;

// A worker that has just worked looks around for this long before it sleeps: the next request of a loop finds it awake.
// While requests stand, the next one of a loop is still to come: the device may be some 100 us behind the readers. So
// the window begins with their end, but lasts no longer after its own work than the second one.
constexpr auto spin_window = std::chrono::microseconds(60);
constexpr auto longest_spin_window = std::chrono::microseconds(200);

std::uint64_t at_it(std::uint64_t word) {
  return word & 0xffU;
}
std::uint64_t helpers(std::uint64_t word) {
  return word >> 8U & 0xffU;
}

struct alignas(base::line_bytes) JobSlot {
  std::atomic<std::uint64_t> word{0};
  std::atomic<Job*> job{nullptr};
  std::atomic<std::uint32_t> request{0};  // that it belongs to, while requests are recorded
  std::atomic<bool> taken{false};
};

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
  std::mutex starting;
  std::atomic<unsigned> tried{0};    // workers that were started, or could not be
  std::atomic<unsigned> running{0};  // of these, those that were
};

WorkQueue& work_queue() {
  static base::NeverDestroyed<WorkQueue> instance;
  return instance.get();
}

// What the cgroup grants, in whole processors; ~0 without a limit.
unsigned granted_by_cgroup() {
  const std::string text = facts::read_value("/sys/fs/cgroup/cpu.max").value_or("");  // "200000 100000", "max 100000"
  const char* const end = text.data() + text.size();
  std::uint64_t quota = 0;
  std::uint64_t period = 0;
  const auto first = std::from_chars(text.data(), end, quota);
  if (first.ec != std::errc() || first.ptr == end) return ~0U;
  std::from_chars(first.ptr + 1, end, period);
  return period == 0 ? ~0U : static_cast<unsigned>(std::max<std::uint64_t>(1, quota / period));
}

// What this thread may run on, or the process's first one: a thread that is tied to a processor for its own sake says
// nothing of the others.
cpu_set_t allowed_processors() noexcept {
  cpu_set_t here;
  cpu_set_t first;
  CPU_ZERO(&here);
  CPU_ZERO(&first);
  ::sched_getaffinity(0, sizeof here, &here);
  ::sched_getaffinity(::getpid(), sizeof first, &first);
  CPU_OR(&here, &here, &first);
  return here;
}

unsigned count_processors() {
  const cpu_set_t allowed = allowed_processors();
  return std::min(std::max(1U, static_cast<unsigned>(CPU_COUNT(&allowed))), granted_by_cgroup());
}

// Without memory to read what the cgroup grants, it is asked again the next time.
unsigned processor_count() noexcept try {
  static const unsigned count = count_processors();
  return count;
} catch (const std::bad_alloc&) {
  return 1;
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
  const unsigned there_are = std::min(all.running.load(std::memory_order_relaxed), worker_count());
  return static_cast<int>(there_are) - all.sleeping.load(std::memory_order_seq_cst);
}

// As many as are wanted and not awake already. Waking costs the submitter some microseconds each, so it wakes one,
// which wakes the next.
void wake(WorkQueue& all) noexcept {
  if (all.sleeping.load(std::memory_order_seq_cst) == 0) return;
  if (awake_workers(all) < static_cast<int>(wanted_by_all(all))) all.event.advance(1);
}

// Nobody else does what is in the background: one worker that sleeps is woken unless one spins just now.
void wake_for_background(WorkQueue& all) noexcept {
  const int sleeping = all.sleeping.load(std::memory_order_seq_cst);
  const int others = all.background_sleeping.load(std::memory_order_seq_cst);
  const int looking = static_cast<int>(all.running.load(std::memory_order_relaxed)) - sleeping - others -
                      all.busy.load(std::memory_order_seq_cst);
  if (looking > 0) return;
  if (sleeping > 0) {
    all.event.advance(1);
  } else if (others > 0) {
    all.background_event.advance(1);
  }
}

bool wants_a_helper(const JobSlot& slot) noexcept {
  return helpers(slot.word.load(std::memory_order_seq_cst)) > 0;
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
  while (helpers(seen) > 0) {
    // Acquire: the job as it was when its helpers were asked for.
    if (!slot.word.compare_exchange_weak(seen, seen - one_helper + one_at_it, std::memory_order_acquire)) continue;
    // Counted before the look at the background: a caller that schedules there counts on this worker no more, or this
    // worker sees the call.
    all.busy.fetch_add(1, std::memory_order_seq_cst);
    if (helpers(seen) > 1 && !is_background(all, slot)) wake(all);
    if (wants_background_helpers(all)) wake_for_background(all);
    {
      const observe::HelpProbe probe(slot.request.load(std::memory_order_relaxed));
      slot.job.load(std::memory_order_relaxed)->run_helper(number + 1);
    }
    all.busy.fetch_sub(1, std::memory_order_relaxed);
    // Release: what this worker did is seen by the submitter that finds nobody at it.
    slot.word.fetch_sub(one_at_it, std::memory_order_release);
    return true;
  }
  return false;
}

// Joins the first job that wants a helper, does its share. False when nobody wants one. Jobs come before the
// background: somebody waits for them.
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
// soon as nobody wants them.
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
    // Counted before the last look: a job submitted after it finds somebody to wake.
    sleeping.fetch_add(1, std::memory_order_seq_cst);
    if (!any_job_wants_a_helper(all, number)) event.wait_beyond(seen, std::nullopt);
    sleeping.fetch_sub(1, std::memory_order_relaxed);
  }
}

// Signals are for the program's threads, and none is delivered to this one while it has the lock: a handler that makes
// a transfer would wait for it.
class SignalsHeld {
 public:
  SignalsHeld() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

void start_one(unsigned number, const cpu_set_t& allowed) {
  std::thread thread(run_worker, number);
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "sluice-work-%u", number);
  ::pthread_setname_np(thread.native_handle(), name.data());
  ::pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed);
  thread.detach();
}

// As many as there may be, with the first work for them.
void start_all(WorkQueue& all, unsigned wanted) noexcept {
  const SignalsHeld held;
  const std::lock_guard lock(all.starting);
  const cpu_set_t allowed = allowed_processors();
  for (unsigned number = all.tried.load(std::memory_order_relaxed); number < wanted; ++number) {
    try {
      start_one(number, allowed);
    } catch (const std::exception& failure) {
      std::array<char, 96> text{};
      std::snprintf(text.data(), text.size(), "only %u of %u worker threads could be started", all.running.load(),
                    wanted);
      observe::log_failure(config::LogLevel::warn, "workers", text.data(), failure.what());
      all.tried.store(wanted, std::memory_order_release);  // not to be tried again
      return;
    }
    all.running.fetch_add(1, std::memory_order_relaxed);
    all.tried.store(number + 1, std::memory_order_release);
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
  if (all.tried.load(std::memory_order_acquire) < worker_count()) start_all(all, worker_count());
  for (std::size_t i = 0; i < all.slots.size(); ++i) {
    JobSlot& slot = all.slots[i];
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true, std::memory_order_acquire)) continue;
    slot_ = static_cast<int>(i);
    slot.job.store(&job, std::memory_order_relaxed);
    slot.request.store(observe::request_of_job(), std::memory_order_relaxed);
    // Release: a worker that sees the helpers wanted sees the job, too. Sequentially consistent with a worker's going
    // to sleep: either it sees them, or it is counted among the sleeping here.
    slot.word.fetch_add(most * one_helper, std::memory_order_seq_cst);
    wake(all);
    return;
  }
}

JobScope::~JobScope() {
  work_queue().jobs.fetch_sub(1, std::memory_order_relaxed);
  if (slot_ < 0) return;
  JobSlot& slot = work_queue().slots[static_cast<std::size_t>(slot_)];
  std::uint64_t seen = slot.word.load(std::memory_order_relaxed);
  while (
      !slot.word.compare_exchange_weak(seen, seen - helpers(seen) * one_helper + one_use, std::memory_order_acquire)) {
  }
  base::SpinBackoff backoff;
  while (at_it(slot.word.load(std::memory_order_acquire)) > 0) backoff.wait();
  slot.taken.store(false, std::memory_order_release);
}

bool schedule_background(Background kind, Job& job, unsigned helpers_wanted) noexcept {
  WorkQueue& all = work_queue();
  const unsigned there_may_be = background_worker_count();
  if (all.tried.load(std::memory_order_acquire) < there_may_be) start_all(all, there_may_be);
  if (all.running.load(std::memory_order_relaxed) == 0) return false;
  JobSlot& slot = all.background[static_cast<std::size_t>(kind)];
  slot.job.store(&job, std::memory_order_relaxed);
  const std::uint64_t wanted = std::clamp(helpers_wanted, 1U, there_may_be);
  std::uint64_t seen = slot.word.load(std::memory_order_relaxed);
  // Sequentially consistent with a worker's going to sleep and with its beginning of other work, as for jobs.
  while (!slot.word.compare_exchange_weak(seen, seen + (wanted - std::min(wanted, helpers(seen))) * one_helper,
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
  if (all.tried.load(std::memory_order_acquire) < worker_count()) start_all(all, worker_count());
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
  work_queue().starting.lock();
}

void workers_after_fork(bool in_child) noexcept {
  WorkQueue& all = work_queue();
  if (in_child) {
    // The work in the queue was that of threads that this process does not have.
    for (JobSlot& slot : all.slots) {
      slot.word.store(0, std::memory_order_relaxed);
      slot.taken.store(false, std::memory_order_relaxed);
    }
    for (JobSlot& slot : all.background) slot.word.store(0, std::memory_order_relaxed);
    all.busy.store(0, std::memory_order_relaxed);
    all.tried.store(0, std::memory_order_relaxed);
    all.running.store(0, std::memory_order_relaxed);
    all.sleeping.store(0, std::memory_order_relaxed);
    all.background_sleeping.store(0, std::memory_order_relaxed);
  }
  all.starting.unlock();
}

}  // namespace sluice::workers
