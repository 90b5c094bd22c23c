// One lock guards the lists; it is held for some looks at words in memory, never while bytes move. Whoever finds due
// tasks goes on with one itself and leaves watching to the next, who is woken for it.
#include "engine/attendants.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>

#include "engine/courier.h"
#include "engine/pause.h"
#include "observe/log.h"

namespace sluice::engine {

namespace {

using Clock = std::chrono::steady_clock;

// Streams that share hardware queues are blocked by as many tasks as there are queues, so this many is plenty.
constexpr unsigned most_attendants = 64;
// Beyond so many stations those of other contexts are used again.
constexpr std::size_t usual_stations = 256;
// After something has happened: looks without a pause, and then naps that grow with the time that nothing happens.
constexpr auto eager = std::chrono::microseconds(100);
constexpr auto shortest_nap = std::chrono::microseconds(20);
constexpr auto longest_nap = std::chrono::microseconds(1000);
constexpr auto between_health_checks = std::chrono::milliseconds(500);

timespec in_time(std::chrono::nanoseconds from_now) noexcept {
  timespec deadline{};
  ::clock_gettime(CLOCK_MONOTONIC, &deadline);
  const std::int64_t nanoseconds = deadline.tv_nsec + from_now.count();
  deadline.tv_sec += nanoseconds / 1'000'000'000;
  deadline.tv_nsec = nanoseconds % 1'000'000'000;
  return deadline;
}

Attendants*& the_attendants() {
  static auto* instance = new Attendants;
  return instance;
}

}  // namespace

Attendants& Attendants::instance() noexcept {
  return *the_attendants();
}

Station* Attendants::take_station(cuda::Context context, unsigned long long context_id) noexcept try {
  std::unique_lock lock(mutex_);
  const auto serves = [&](const Station* station) {
    return station->device_.serves(context, context_id) && !station->condemned_.load(std::memory_order_relaxed);
  };
  auto found = std::find_if(idle_.rbegin(), idle_.rend(), serves);
  if (found == idle_.rend() && stations_ >= usual_stations) found = idle_.rbegin();
  Station* station = nullptr;
  if (found != idle_.rend()) {
    station = *found;
    idle_.erase(std::next(found).base());
  } else {
    idle_.reserve(stations_ + 1);  // giving back never allocates
    watched_.reserve(stations_ + 1);
    ++stations_;
  }
  lock.unlock();
  if (station == nullptr) {
    void* const mapping =
        ::mmap(nullptr, gpu::errand_memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    station = mapping == MAP_FAILED ? nullptr : new (std::nothrow) Station;
    if (station == nullptr) {
      if (mapping != MAP_FAILED) ::munmap(mapping, gpu::errand_memory_bytes);
      lock.lock();
      --stations_;
      return nullptr;
    }
    // A page that a device may write to must not become copy-on-write under it.
    ::madvise(mapping, gpu::errand_memory_bytes, MADV_DONTFORK);
    station->memory_ = {static_cast<std::byte*>(mapping), gpu::errand_memory_bytes};
  }
  station->kept_ = true;
  if (serves(station)) return station;
  station->words() = {};
  station->sequence_ = 0;
  station->next_number_ = gpu::first_errand;
  station->condemned_.store(false);
  if (station->device_.attach(context, context_id, station->memory_) == cuda::success) return station;
  lock.lock();
  station->kept_ = false;
  idle_.push_back(station);
  return nullptr;
} catch (...) {
  return nullptr;
}

void Attendants::give_back(Station& station) noexcept {
  const std::lock_guard lock(mutex_);
  station.kept_ = false;
  settle_station(station);
}

bool Attendants::is_idle(const Station& station) noexcept {
  const std::lock_guard lock(mutex_);
  return !station.running_ && station.pending_.empty();
}

// With the lock: to the idle ones, when nothing is left to wait for.
void Attendants::settle_station(Station& station) {
  if (station.running_ || !station.pending_.empty()) return;
  if (station.kernel_inside_ && look(station.words().left) != 1 && !station.condemned_.load()) {
    if (station.kept_ || station.watched_) return;
    station.watched_ = true;  // until the kernel is out
    watched_.push_back(&station);
    return;
  }
  station.kernel_inside_ = false;
  if (station.watched_) {
    station.watched_ = false;
    std::erase(watched_, &station);
  }
  constexpr std::uint32_t worn_out = 0xf0000000U;  // numbers never come round
  if (station.next_number_ > worn_out) station.condemned_.store(true);
  if (!station.kept_) idle_.push_back(&station);
}

void Attendants::expect(Station& station, StreamTask& task) {
  std::unique_lock lock(mutex_);
  station.pending_.push_back(&task);
  if (!station.watched_) {
    station.watched_ = true;
    watched_.push_back(&station);
  }
  if (!somebody_watches_) {
    wake_one(lock);
  } else if (watcher_naps_) {
    watch_news_.advance();
  }
}

void Attendants::expect_call(Station& station, StreamTask& task) {
  const std::lock_guard lock(mutex_);
  station.pending_.push_back(&task);
  if (station.watched_) return;
  station.watched_ = true;
  watched_.push_back(&station);
}

void Attendants::forget(Station& station, StreamTask& task) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(station.pending_, &task);
}

void Attendants::ring(Station& station, StreamTask& task) noexcept {
  std::unique_lock lock(mutex_);
  std::erase(station.pending_, &task);
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
void Attendants::wake_one(std::unique_lock<std::mutex>& lock) {
  if (resting_ > 0) {
    news_.advance(1);
    return;
  }
  if (threads_ >= most_attendants) return;
  ++threads_;
  lock.unlock();
  const bool started = start_one();
  lock.lock();
  if (!started) --threads_;
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
  } catch (const std::system_error& failure) {
    observe::log(config::LogLevel::error, "engine",
                 std::string("no thread can be started to attend to streams: ") + failure.what());
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void Attendants::attend() noexcept {
  int mode = cuda::capture_relaxed;
  if (const gpu::Driver* const driver = gpu::driver()) driver->exchange_capture_mode(&mode);
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!due_.empty()) {
      const Due due = due_.front();
      due_.pop_front();
      // Whoever is next: for what else is due, or to watch.
      if (!due_.empty() || (!somebody_watches_ && !watched_.empty())) wake_one(lock);
      at_work_.push_back(due);
      lock.unlock();
      run(due);
      lock.lock();
      std::erase_if(at_work_, [&](const Due& one) { return one.task == due.task; });
      if (!due.task->repeats) due.task->end();
      if (due.station->rung_.empty()) {
        due.station->running_ = false;
        settle_station(*due.station);
      } else {
        due_.push_back({due.station, due.station->rung_.front()});
        due.station->rung_.pop_front();
      }
      if (awaited_ > 0) ended_.advance();
    } else if (!somebody_watches_ && !watched_.empty()) {
      somebody_watches_ = true;
      watch(lock);
      somebody_watches_ = false;
    } else {
      const std::uint32_t seen = news_.now();
      ++resting_;
      lock.unlock();
      const auto until = Clock::now() + eager;
      while (news_.now() == seen && Clock::now() < until) pause(16);
      news_.wait_beyond(seen, std::nullopt);
      lock.lock();
      --resting_;
    }
  }
}

// Returns with the lock when something is due, or nothing is left to watch.
void Attendants::watch(std::unique_lock<std::mutex>& lock) {
  auto last = Clock::now();
  auto checked = last;
  while (!collect() && due_.empty() && !watched_.empty()) {
    const auto now = Clock::now();
    if (now - checked > between_health_checks) {
      drop_the_dead();
      checked = now;
    }
    const auto quiet = now - last;
    const std::uint32_t seen = watch_news_.now();
    watcher_naps_ = quiet > eager;
    const bool naps = watcher_naps_;
    lock.unlock();
    if (naps) {
      const auto nap = std::clamp<std::chrono::nanoseconds>(quiet / 16, shortest_nap, longest_nap);
      if (watch_news_.wait_beyond(seen, in_time(nap))) last = Clock::now();
    } else {
      pause(16);
    }
    lock.lock();
    watcher_naps_ = false;
  }
}

// With the lock: what has become due since the last look. Answers whether anything has.
bool Attendants::collect() {
  bool any = false;
  for (std::size_t i = 0; i < watched_.size();) {
    Station& station = *watched_[i];
    if (!station.running_ && station.pending_.empty()) {
      settle_station(station);
    } else if (!station.running_) {
      StreamTask& task = *station.pending_.front();
      const bool rung = static_cast<std::int32_t>(look(station.words().bell) - task.gate_value_) >= 0;
      const bool may_begin = task.early && (!station.kernel_inside_ || look(station.words().left) == 1);
      if (!task.rung_by_call_ && (rung || may_begin)) {
        station.pending_.pop_front();
        station.running_ = true;
        due_.push_back({&station, &task});
        any = true;
      }
    }
    if (i < watched_.size() && watched_[i] == &station) ++i;
  }
  return any;
}

// With the lock: the streams of contexts that are gone get nowhere any more.
void Attendants::drop_the_dead() {
  const std::vector<Station*> all = watched_;
  for (Station* const station : all) {
    if (station->running_ || station->device_.health() == cuda::success) continue;
    station->condemned_.store(true);
    while (!station->pending_.empty()) {
      station->pending_.front()->end();
      station->pending_.pop_front();
    }
    settle_station(*station);
  }
  if (awaited_ > 0) ended_.advance();
}

void Attendants::run(const Due& due) noexcept {
  // Of a task that a call has rung, the caller may still be putting the rest into the stream.
  Patience patience;
  while (!due.task->submitted_.load(std::memory_order_acquire)) patience.wait();
  due.station->kernel_inside_ = due.task->blocks > 0;
  Courier courier(*due.station, *due.task);
  due.task->run(courier);
  courier.finish();
}

bool Attendants::concerns(const void* subject) const {
  const auto same = [subject](const StreamTask* task) {
    return !task->repeats && (subject == nullptr || task->subject == subject);
  };
  return std::any_of(due_.begin(), due_.end(), [&](const Due& due) { return same(due.task); }) ||
         std::any_of(at_work_.begin(), at_work_.end(), [&](const Due& due) { return same(due.task); }) ||
         std::any_of(watched_.begin(), watched_.end(), [&](const Station* station) {
           return std::any_of(station->pending_.begin(), station->pending_.end(), same);
         });
}

bool Attendants::pending(const void* subject) noexcept {
  const std::lock_guard lock(mutex_);
  return concerns(subject);
}

bool Attendants::wait_until_none(const void* subject, int milliseconds) noexcept {
  const timespec deadline = in_time(std::chrono::milliseconds(milliseconds));
  std::unique_lock lock(mutex_);
  ++awaited_;
  bool in_time = true;
  while (concerns(subject) && in_time) {
    const std::uint32_t seen = ended_.now();
    lock.unlock();
    in_time = ended_.wait_beyond(seen, deadline);
    lock.lock();
  }
  --awaited_;
  return !concerns(subject);
}

std::size_t Attendants::station_count() noexcept {
  const std::lock_guard lock(mutex_);
  return stations_;
}

void Attendants::before_fork() noexcept {
  instance().mutex_.lock();
}

void Attendants::after_fork(bool in_child) noexcept {
  instance().mutex_.unlock();
  // The threads and the streams were the parent's. What they worked with is not even mapped here.
  if (in_child) the_attendants() = new (std::nothrow) Attendants;
}

}  // namespace sluice::engine
