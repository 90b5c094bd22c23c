// One lock guards the lists; it is held for some looks at words in memory, never while bytes move. The watcher does
// what is quick by itself. For anything else it leaves watching to the next, who is woken for it.
#include "stream/channel/attendants.h"

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
#include "base/pause.h"
#include "gpu/memory.h"
#include "observe/log.h"
#include "stream/channel/courier.h"
#include "workers/lanes.h"

namespace sluice::stream {

namespace {

using Clock = std::chrono::steady_clock;

// Streams that share hardware queues are blocked by as many tasks as there are queues, so this many is plenty.
constexpr unsigned most_attendants = 64;
// After something has happened: looks without a pause, and then naps that grow with the time that nothing happens.
constexpr auto eager = std::chrono::microseconds(100);
constexpr auto eager_after_storage = std::chrono::microseconds(40);  // had to be waited for
constexpr auto shortest_nap = std::chrono::microseconds(20);
constexpr auto longest_nap = std::chrono::milliseconds(8);
constexpr auto between_health_checks = std::chrono::milliseconds(500);
// What the watcher does by itself should be over by then; the deputy who looks after it sleeps that long.
constexpr auto longest_quick = std::chrono::milliseconds(2);
constexpr auto between_deputy_looks = std::chrono::milliseconds(25);
// When nothing has happened for so long, the deputy sleeps, too, until the watcher has something to do.
constexpr auto long_quiet = std::chrono::seconds(1);

base::NeverDestroyed<Attendants>& the_attendants() {
  static base::NeverDestroyed<Attendants> instance;
  return instance;
}

}  // namespace

Attendants& Attendants::instance() noexcept {
  return the_attendants().get();
}

void Attendants::announce(unsigned hands) noexcept {
  if (hands == 0) return;
  hands_announced_.store(hands, std::memory_order_release);
  if (watcher_naps_.load(std::memory_order_relaxed)) {
    watch_news_.advance();
  } else if (!somebody_is_awake_.load(std::memory_order_relaxed)) {
    news_.advance(1);
  }
}

// Waking lanes takes longer than a stream takes to ring.
void Attendants::rouse() noexcept {
  if (hands_announced_.load(std::memory_order_relaxed) == 0) return;
  workers::rouse_lanes(hands_announced_.exchange(0, std::memory_order_acquire));
}

bool Attendants::are_there() noexcept {
  if (started_.load(std::memory_order_relaxed)) return true;
  const std::lock_guard lock(mutex_);
  if (started_.load(std::memory_order_relaxed)) return true;
  if (start_one()) ++threads_;
  return started_.load(std::memory_order_relaxed);
}

void Attendants::expect(StreamTask& task) {
  // The task may be over at once.
  arrivals_.put(task);
  if (watcher_sees_.load(std::memory_order_seq_cst)) return;
  std::unique_lock lock(mutex_);
  take_in();
  if (!somebody_watches_) {
    wake_one(lock);
  } else if (watcher_naps_) {
    watch_news_.advance();
  }
}

void Attendants::expect_call(Station& station, StreamTask& task) {
  const std::lock_guard lock(mutex_);
  take_in();
  put_behind(station, task);
}

void Attendants::forget(Station& station, StreamTask& task) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  station.pending_.erase(task);
}

void Attendants::ring(Station& station, StreamTask& task) noexcept {
  std::unique_lock lock(mutex_);
  take_in();
  station.pending_.erase(task);
  // The stream may be here before the attendant of the task before has put its things in order.
  if (station.running_) {
    station.rung_.push_back(&task);
    return;
  }
  station.running_ = true;
  due_.push_back({&station, &task});
  wake_one(lock);
}

// With the lock, which is let go for a moment. Somebody will look at what is due, or watch.
void Attendants::wake_one(std::unique_lock<base::AdaptiveMutex>& lock) {
  if (resting_ > 0) {
    news_.advance(looking_ > 0 ? 0 : 1);  // who looks around sees it without being woken
    return;
  }
  if (threads_ >= most_attendants) return;
  ++threads_;
  lock.unlock();
  const bool started = start_one();
  lock.lock();
  if (!started) --threads_;
}

// With the lock. Somebody is to watch in our place; and where several streams have work, they will need a thread each
// soon: waking takes a while, so all are woken at once.
void Attendants::wake_companions(std::unique_lock<base::AdaptiveMutex>& lock) {
  const unsigned streams = companions();
  const auto at_work = static_cast<unsigned>(at_work_.size());
  const unsigned wanted = std::min(streams > at_work ? streams - at_work : 1U, workers::lane_count() + 1);
  if (wanted > 1 && resting_ > 1) {
    news_.advance(static_cast<int>(wanted));
  } else {
    wake_one(lock);
  }
}

bool Attendants::start_one() noexcept {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread thread([this] { attend(); });
    ::pthread_setname_np(thread.native_handle(), "sluice-streams");
    thread.detach();
    started_.store(true, std::memory_order_relaxed);
  } catch (const std::exception& failure) {
    observe::log_failure(config::LogLevel::error, "engine", "no thread can be started to attend to streams",
                         failure.what());
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void Attendants::attend() noexcept {
  gpu::serve_waiting_streams();
  int mode = cuda::capture_relaxed;
  if (const gpu::Driver* const driver = gpu::driver()) driver->exchange_capture_mode(&mode);
  std::unique_lock lock(mutex_);
  auto last = Clock::now();  // when this thread had something to do
  for (;;) {
    if (somebody_watches_ && watcher_is_stuck()) {
      ++watch_turn_;
      somebody_watches_ = false;
      inside_since_.reset();
      look_away();
    }
    if (!due_.empty()) {
      deputy_called_ = false;  // whom the watcher called may be this thread, and is no deputy now
      const Due due = take_due();
      // Whoever is next: for what else is due, to watch, or to look after the one who watches.
      const bool watcher_is_alone = inside_since_ && !has_deputy_;
      if (!due_.empty() || (!somebody_watches_ && !watched_.empty()) || watcher_is_alone) wake_one(lock);
      const bool waited = serve(lock, due);
      last = looks_around_after(waited) ? Clock::now() : Clock::time_point{};
    } else if (!somebody_watches_ && !watched_.empty()) {
      const bool waited = watch(lock);
      last = looks_around_after(waited) ? Clock::now() : Clock::time_point{};
    } else {
      rest(lock, last + eagerness_);
    }
  }
}

// With the lock.
Attendants::Due Attendants::take_due() {
  const Due due = due_.front();
  due_.erase(due_.begin());
  at_work_.push_back(due);
  return due;
}

// With the lock. Does a thread that has just served something look around, before it goes to sleep? Where storage was
// waited for, the next may be long in coming, and one who looks around is enough.
bool Attendants::looks_around_after(bool waited) const noexcept {
  return !waited || (looking_ == 0 && !somebody_watches_);
}

// With the lock, which is let go meanwhile. Answers whether the task has waited for its storage.
bool Attendants::serve(std::unique_lock<base::AdaptiveMutex>& lock, const Due& due) {
  lock.unlock();
  const bool waited = run(due);
  lock.lock();
  eagerness_ = waited ? eager_after_storage : eager;
  Station& station = *due.station;
  std::erase_if(at_work_, [&](const Due& one) { return one.station == &station && one.task == due.task; });
  if (due.task != nullptr && !due.task->repeats) due.task->end();
  if (station.rung_.empty()) {
    take_in();  // the station's next task, perhaps
    station.running_ = false;
    station.departing_ = station.courier_->kernel(Clock::now()) != Courier::Kernel::through;
    settle_station(station);
  } else {
    due_.push_back({&station, station.rung_.front()});
    station.rung_.erase(station.rung_.begin());
  }
  if (awaited_ > 0) ended_.advance();
  return waited;
}

// With the lock, which is let go meanwhile. While somebody watches, one of those who rest looks now and then whether he
// has got stuck in what he took for quick: with the last stream that there was to watch, too.
void Attendants::rest(std::unique_lock<base::AdaptiveMutex>& lock, Clock::time_point awake_until) {
  const std::uint32_t seen = news_.now();
  const bool deputy = !has_deputy_ && somebody_watches_ && !nothing_happens_;
  if (deputy) has_deputy_ = true;
  if (deputy || nothing_happens_) deputy_called_ = false;
  ++resting_;
  ++looking_;
  lock.unlock();
  somebody_is_awake_.store(true, std::memory_order_relaxed);
  while (news_.now() == seen && Clock::now() < awake_until) {
    rouse();
    base::pause(16);
  }
  somebody_is_awake_.store(false, std::memory_order_relaxed);
  --looking_;
  rouse();
  news_.wait_beyond(seen, deputy ? std::optional(base::in_time(between_deputy_looks)) : std::nullopt);
  lock.lock();
  --resting_;
  if (deputy) has_deputy_ = false;
}

// With the lock, by the one who watches or takes his place. Whoever puts a task into a stream from here on makes sure
// himself that somebody will see it; what was put there before is taken in. Answers whether there was any.
bool Attendants::look_away() {
  watcher_sees_.store(false, std::memory_order_seq_cst);
  const bool any = !arrivals_.empty();
  take_in();
  return any;
}

// The same, where nothing is left.
bool Attendants::something_to_watch() {
  take_in();
  if (!watched_.empty()) return true;
  look_away();
  if (watched_.empty()) return false;
  watcher_sees_.store(true, std::memory_order_seq_cst);
  return true;
}

bool Attendants::watcher_is_stuck() const noexcept {
  return inside_since_ && Clock::now() - *inside_since_ > longest_quick;
}

// With the lock: watches until there is something that is not quick, which it serves, or nothing left to watch. Answers
// as serve() does.
bool Attendants::watch(std::unique_lock<base::AdaptiveMutex>& lock) {
  const unsigned turn = ++watch_turn_;
  somebody_watches_ = true;
  deputy_called_ = false;
  somebody_is_awake_.store(true, std::memory_order_relaxed);
  auto last = Clock::now();
  auto checked = last;
  nothing_happens_ = false;
  watcher_sees_.store(true, std::memory_order_seq_cst);
  while (something_to_watch()) {
    if (std::exchange(something_arrived_, false)) last = Clock::now();
    collect();
    while (!due_.empty()) {
      const Due due = take_due();
      nothing_happens_ = false;
      if (!has_deputy_ && !deputy_called_) {
        deputy_called_ = true;
        wake_one(lock);
      }
      inside_since_ = Clock::now();
      lock.unlock();
      const bool quick = due.task != nullptr && due.task->is_quick();
      lock.lock();
      if (!quick && turn == watch_turn_) {
        somebody_watches_ = false;
        inside_since_.reset();
        look_away();
        wake_companions(lock);
      }
      const bool waited = serve(lock, due);
      if (!quick || turn != watch_turn_) return waited;
      inside_since_.reset();
      last = Clock::now();
    }
    const auto now = Clock::now();
    if (now - checked > between_health_checks) {
      drop_the_dead();
      checked = now;
    }
    const auto quiet = now - last;
    const std::uint32_t seen = watch_news_.now();
    nothing_happens_ = quiet > long_quiet;
    const bool naps = quiet > eagerness_ && !look_away();
    if (naps) watcher_naps_ = true;
    lock.unlock();
    rouse();
    if (naps) {
      const auto nap = std::clamp<std::chrono::nanoseconds>(quiet / 16, shortest_nap, longest_nap);
      if (watch_news_.wait_beyond(seen, base::in_time(nap))) last = Clock::now();
    } else {
      base::pause(16);
    }
    lock.lock();
    if (naps) watcher_naps_ = false;
    if (!watcher_sees_.load(std::memory_order_relaxed)) watcher_sees_.store(true, std::memory_order_seq_cst);
  }
  nothing_happens_ = false;
  somebody_watches_ = false;
  return false;
}

bool Attendants::run(const Due& due) noexcept {
  Courier& courier = *due.station->courier_;
  if (due.task == nullptr) {
    courier.call_off_late();
    return false;
  }
  // Of a task that a call has rung, the caller may still be putting the rest into the stream, or be kept from it.
  base::Patience patience;
  for (const auto begun = Clock::now(); !due.task->is_submitted(); patience.wait()) {
    if (!due.task->is_let_through() && Clock::now() - begun > usual_launch) due.station->let_through(*due.task);
  }
  if (due.task->blocks > 0) due.station->last_launch_ = due.station->next_number_;
  courier.begin(*due.task);
  due.task->run(courier);
  courier.finish();
  return courier.waited_for_storage();
}

void Attendants::before_fork() noexcept {
  instance().mutex_.lock();
}

void Attendants::after_fork(bool in_child) noexcept {
  instance().mutex_.unlock();
  // The threads and the streams were the parent's. What they worked with is not even mapped here.
  if (in_child) the_attendants().make_anew();
}

}  // namespace sluice::stream
