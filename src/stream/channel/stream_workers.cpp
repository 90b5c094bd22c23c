// SPDX-License-Identifier: Apache-2.0
// One lock guards the lists; it is held for some looks at words in memory, never while bytes move. The poller does
// what is quick by itself. For anything else it leaves polling to the next, which is woken for it.
#include "stream/channel/stream_workers.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "base/never_destroyed.h"
#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "gpu/session.h"
#include "observe/log.h"
#include "workers/work_queue.h"

namespace sluice::stream {

namespace {

using Clock = std::chrono::steady_clock;

// Streams that share hardware queues are blocked by as many tasks as there are queues, so this many is plenty.
constexpr unsigned most_workers = 64;
// After something has happened: looks without a pause, and then sleeps that grow with the time that nothing happens.
constexpr auto eager = std::chrono::microseconds(100);
constexpr auto eager_after_storage = std::chrono::microseconds(40);  // had to be waited for
constexpr auto shortest_sleep = std::chrono::microseconds(20);
constexpr auto longest_sleep = std::chrono::milliseconds(8);
constexpr auto between_health_checks = std::chrono::milliseconds(500);
// What the poller does by itself should be over by then; the watchdog that looks after it sleeps that long.
constexpr auto longest_quick = std::chrono::milliseconds(2);
constexpr auto between_watchdog_looks = std::chrono::milliseconds(25);
// When nothing has happened for so long, the watchdog sleeps, too, until the poller has something to do.
constexpr auto long_quiet = std::chrono::seconds(1);

base::NeverDestroyed<StreamWorkers>& the_workers() {
  static base::NeverDestroyed<StreamWorkers> instance;
  return instance;
}

}  // namespace

StreamWorkers& StreamWorkers::instance() noexcept {
  return the_workers().get();
}

void StreamWorkers::announce(unsigned helpers) noexcept {
  if (helpers == 0) return;
  helpers_announced_.store(helpers, std::memory_order_release);
  if (poller_sleeps_.load(std::memory_order_relaxed)) {
    poller_event_.advance();
  } else if (!a_worker_is_awake_.load(std::memory_order_relaxed)) {
    event_.advance(1);
  }
}

// Waking workers takes longer than a stream takes to its doorbell.
void StreamWorkers::rouse() noexcept {
  if (helpers_announced_.load(std::memory_order_relaxed) == 0) return;
  workers::wake_workers(helpers_announced_.exchange(0, std::memory_order_acquire));
}

Attendance StreamWorkers::attendance() noexcept {
  if (started_.load(std::memory_order_relaxed)) return Attendance::there;
  const Lock lock = pool_.lock();
  if (started_.load(std::memory_order_relaxed)) return Attendance::there;
  const Attendance attendance = start_one();
  if (attendance == Attendance::there) ++threads_;
  return attendance;
}

void StreamWorkers::expect(StreamTask& task) {
  if (pool_.arrive(task)) return;
  Lock lock = pool_.lock();
  pool_.take_in();
  if (!has_poller_) {
    wake_one(lock);
  } else if (poller_sleeps_) {
    poller_event_.advance();
  }
}

void StreamWorkers::doorbell_rung(StreamChannel& channel, StreamTask& task) noexcept {
  Lock lock = pool_.lock();
  if (pool_.ring(channel, task)) wake_one(lock);
}

// With the lock, which is let go for a moment. A thread will look at what is due, or watch.
void StreamWorkers::wake_one(Lock& lock) {
  if (sleeping_ > 0) {
    event_.advance_unless(looking_);  // a spinning one sees it without being woken
    return;
  }
  if (threads_ >= most_workers) return;
  ++threads_;
  lock.unlock();
  const Attendance started = start_one();
  lock.lock();
  if (started != Attendance::there) --threads_;
}

// With the lock. Another thread is to watch in our place; and where several streams have work, they will need a thread
// each soon: waking takes a while, so all are woken at once.
void StreamWorkers::wake_peers(Lock& lock) {
  const unsigned streams = pool_.peak_streams();
  const auto at_work = static_cast<unsigned>(pool_.at_work());
  const unsigned wanted = std::min(streams > at_work ? streams - at_work : 1U, workers::worker_count() + 1);
  if (wanted > 1 && sleeping_ > 1) {
    event_.advance(static_cast<int>(wanted));
  } else {
    wake_one(lock);
  }
}

Attendance StreamWorkers::start_one() noexcept {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Attendance started = Attendance::there;
  try {
    std::thread thread([this] { run_worker(); });
    ::pthread_setname_np(thread.native_handle(), "sluice-streams");
    thread.detach();
    started_.store(true, std::memory_order_relaxed);
  } catch (const std::exception& failure) {
    observe::log_failure(config::LogLevel::error, "stream", "no thread can be started to attend to streams",
                         failure.what());
    const bool lacks_memory = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
    started = lacks_memory ? Attendance::no_memory : Attendance::no_thread;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void StreamWorkers::run_worker() noexcept {
  gpu::serve_waiting_streams();
  int mode = cuda::capture_relaxed;
  if (const gpu::CudaApi* const driver = gpu::driver()) driver->exchange_capture_mode(&mode);
  Lock lock = pool_.lock();
  auto last = Clock::now();  // when this thread had something to do
  for (;;) {
    if (has_poller_ && poller_is_stuck()) {
      ++poll_turn_;
      has_poller_ = false;
      inside_since_.reset();
      pool_.look_away();
    }
    if (pool_.any_due()) {
      watchdog_called_ = false;  // the one that the poller called may be this thread, and is no watchdog now
      const Due due = pool_.take_due();
      // The next one: for what else is due, to poll, or to look after the poller.
      const bool poller_is_alone = inside_since_ && !has_watchdog_;
      if (pool_.any_due() || (!has_poller_ && pool_.any_polled()) || poller_is_alone) wake_one(lock);
      const bool waited = serve(lock, due);
      last = looks_around_after(waited) ? Clock::now() : Clock::time_point{};
    } else if (!has_poller_ && pool_.any_polled()) {
      const bool waited = poll(lock);
      last = looks_around_after(waited) ? Clock::now() : Clock::time_point{};
    } else {
      sleep_until_news(lock, last + eagerness_);
    }
  }
}

// With the lock. Does a thread that has just served something look around, before it goes to sleep? Where storage was
// waited for, the next may be long in coming, and one that spins is enough.
bool StreamWorkers::looks_around_after(bool waited) const noexcept {
  return !waited || (looking_ == 0 && !has_poller_);
}

// With the lock, which is let go meanwhile. Answers whether the task has waited for its storage.
bool StreamWorkers::serve(Lock& lock, const Due& due) {
  lock.unlock();
  const bool waited = due.channel->run(due.task);
  lock.lock();
  eagerness_ = waited ? eager_after_storage : eager;
  pool_.end(due);
  return waited;
}

// With the lock, which is let go meanwhile. While there is a poller, one of those that sleep checks now and then
// whether it is stuck in what it took for quick: with the last stream that there was to poll, too.
void StreamWorkers::sleep_until_news(Lock& lock, Clock::time_point awake_until) {
  const std::uint32_t seen = event_.now();
  const bool watchdog = !has_watchdog_ && has_poller_ && !nothing_happens_;
  if (watchdog) has_watchdog_ = true;
  if (watchdog || nothing_happens_) watchdog_called_ = false;
  ++sleeping_;
  ++looking_;
  lock.unlock();
  a_worker_is_awake_.store(true, std::memory_order_relaxed);
  while (event_.now() == seen && Clock::now() < awake_until) {
    rouse();
    base::pause(16);
  }
  a_worker_is_awake_.store(false, std::memory_order_relaxed);
  --looking_;
  rouse();
  event_.wait_beyond(seen, watchdog ? std::optional(base::deadline_in(between_watchdog_looks)) : std::nullopt);
  lock.lock();
  --sleeping_;
  if (watchdog) has_watchdog_ = false;
}

bool StreamWorkers::poller_is_stuck() const noexcept {
  return inside_since_ && Clock::now() - *inside_since_ > longest_quick;
}

// With the lock: watches until there is something that is not quick, which it serves, or nothing left to watch. Answers
// as serve() does.
bool StreamWorkers::poll(Lock& lock) {
  const unsigned turn = ++poll_turn_;
  has_poller_ = true;
  watchdog_called_ = false;
  a_worker_is_awake_.store(true, std::memory_order_relaxed);
  auto last = Clock::now();
  auto checked = last;
  nothing_happens_ = false;
  pool_.look();
  while (pool_.something_to_poll()) {
    if (pool_.something_arrived()) last = Clock::now();
    pool_.collect();
    while (pool_.any_due()) {
      const Due due = pool_.take_due();
      nothing_happens_ = false;
      if (!has_watchdog_ && !watchdog_called_) {
        watchdog_called_ = true;
        wake_one(lock);
      }
      inside_since_ = Clock::now();
      lock.unlock();
      const bool quick = due.task != nullptr && due.task->is_quick();
      lock.lock();
      if (!quick && turn == poll_turn_) {
        has_poller_ = false;
        inside_since_.reset();
        pool_.look_away();
        wake_peers(lock);
      }
      const bool waited = serve(lock, due);
      if (!quick || turn != poll_turn_) return waited;
      inside_since_.reset();
      last = Clock::now();
    }
    const auto now = Clock::now();
    if (now - checked > between_health_checks) {
      pool_.drop_the_dead();
      checked = now;
    }
    const auto quiet = now - last;
    const std::uint32_t seen = poller_event_.now();
    nothing_happens_ = quiet > long_quiet;
    const bool sleeps = quiet > eagerness_ && !pool_.look_away();
    if (sleeps) poller_sleeps_ = true;
    lock.unlock();
    rouse();
    if (sleeps) {
      const auto sleep_time = std::clamp<std::chrono::nanoseconds>(quiet / 16, shortest_sleep, longest_sleep);
      if (poller_event_.wait_beyond(seen, base::deadline_in(sleep_time))) last = Clock::now();
    } else {
      base::pause(16);
    }
    lock.lock();
    if (sleeps) poller_sleeps_ = false;
    pool_.look();
  }
  nothing_happens_ = false;
  has_poller_ = false;
  return false;
}

void StreamWorkers::before_fork() noexcept {
  instance().pool_.before_fork();
}

void StreamWorkers::after_fork(bool in_child) noexcept {
  instance().pool_.after_fork();
  // The threads and the streams were the parent's. What they worked with is not even mapped here.
  if (in_child) the_workers().make_anew();
}

}  // namespace sluice::stream
