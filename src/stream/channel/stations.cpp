// What the attendants keep in order, and look at in turn: the stations, the bells of their streams, the kernels that
// have yet to begin. Threads are in attendants.cpp.
#include <algorithm>
#include <new>

#include "base/pause.h"
#include "gpu/staging_memory.h"
#include "stream/channel/attendants.h"
#include "stream/channel/courier.h"

namespace sluice::stream {

namespace {

// Beyond so many stations those of contexts that are gone are used again.
constexpr std::size_t usual_stations = 256;

// Staging memory of three stations stands in two huge pages, and their words ahead of it.
constexpr std::size_t stations_in_a_block = 3;
constexpr gpu::StagingShape block_shape{.ahead = stations_in_a_block * gpu::errand_words_bytes,
                                        .bulk = 2 * gpu::huge_page_bytes};
static_assert(stations_in_a_block * gpu::errand_staging_bytes <= block_shape.bulk);

}  // namespace

// None where there is none to be mapped, or to remember the rest of a block with.
gpu::ErrandMemory Attendants::take_memory() noexcept try {
  const std::lock_guard lock(mutex_);
  if (memory_.empty()) {
    memory_.reserve(stations_in_a_block);
    std::byte* const block = gpu::map_staging(block_shape);
    for (std::size_t left = block == nullptr ? 0 : stations_in_a_block; left > 0; --left) {
      memory_.push_back({block + (left - 1) * gpu::errand_words_bytes,
                         block + block_shape.ahead + (left - 1) * gpu::errand_staging_bytes});
    }
  }
  if (memory_.empty()) return {};
  const gpu::ErrandMemory memory = memory_.back();
  memory_.pop_back();
  return memory;
} catch (const std::bad_alloc&) {
  return {};
}

Station* Attendants::make_station() noexcept {
  const gpu::ErrandMemory memory = take_memory();
  if (memory.words == nullptr) return nullptr;
  try {
    return new Station(memory);
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    // Where it came from; another block was mapped meanwhile where there is no room: then it stays unused.
    if (memory_.size() < memory_.capacity()) memory_.push_back(memory);
    return nullptr;
  }
}

Station* Attendants::take_station(cuda::Context context, unsigned long long context_id) noexcept try {
  std::unique_lock lock(mutex_);
  const auto serves = [&](const Station* station) {
    return station->device_.serves(context, context_id) && !station->condemned_.load(std::memory_order_relaxed);
  };
  auto found = std::find_if(idle_.rbegin(), idle_.rend(), serves);
  if (found == idle_.rend()) {
    // One that the driver refused to serve before.
    found = std::find_if(idle_.rbegin(), idle_.rend(),
                         [](const Station* station) { return !station->device_.is_attached(); });
  }
  if (found == idle_.rend() && stations_ >= usual_stations) {
    // Of a context that lives, a stream may not have seen yet that its gate is open.
    found = std::find_if(idle_.rbegin(), idle_.rend(),
                         [](const Station* station) { return station->device_.health().is_gone; });
  }
  Station* station = nullptr;
  if (found != idle_.rend()) {
    station = *found;
    idle_.erase(std::next(found).base());
  } else {
    idle_.reserve(stations_ + 1);  // giving back never allocates
    watched_.reserve(stations_ + 1);
    due_.reserve(stations_ + 1);
    at_work_.reserve(stations_ + 1);
    ++stations_;
  }
  lock.unlock();
  if (station == nullptr) {
    station = make_station();
    if (station == nullptr) {
      lock.lock();
      --stations_;
      return nullptr;
    }
  }
  station->kept_ = true;
  station->kernel_refused_.store(false);
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
  take_in();
  station.kept_ = false;
  settle_station(station);
}

bool Attendants::is_idle(const Station& station) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  return !station.running_ && !station.departing_ && station.pending_.empty();
}

bool Attendants::any_busy(cuda::Context context, unsigned long long context_id) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  return std::any_of(watched_.begin(), watched_.end(), [&](const Station* station) {
    return station->busy_ && station->device_.serves(context, context_id);
  });
}

void Attendants::keep_watching(Station& station) {
  if (station.watched_) return;
  station.watched_ = true;
  watched_.push_back(&station);
}

// With the lock: to the idle ones, when nothing is left to wait for.
void Attendants::settle_station(Station& station) {
  if (station.running_ || !station.pending_.empty()) return;
  if (station.busy_) {
    station.busy_ = false;
    if (busy_.fetch_sub(1, std::memory_order_relaxed) == 1) {
      last_peak_.store(peak_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      peak_.store(0, std::memory_order_relaxed);
    }
  }
  if (station.departing_) return keep_watching(station);
  if (station.is_kernel_inside() && !station.condemned_.load()) {
    if (!station.kept_) keep_watching(station);  // until the kernel is out
    return;
  }
  station.last_launch_.reset();
  if (station.watched_) {
    station.watched_ = false;
    std::erase(watched_, &station);
  }
  if (!station.kept_) idle_.push_back(&station);
}

// With the lock: what has been put into streams since the last look.
void Attendants::take_in() {
  arrivals_.take_all([this](StreamTask& task) {
    put_behind(*task.station_, task);
    something_arrived_ = true;
  });
}

void Attendants::put_behind(Station& station, StreamTask& task) {
  station.pending_.push_back(task);
  keep_watching(station);
  if (station.busy_) return;
  station.busy_ = true;
  const unsigned busy = busy_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (busy > peak_.load(std::memory_order_relaxed)) peak_.store(busy, std::memory_order_relaxed);
}

// With the lock: what has become due since the last look.
void Attendants::collect() {
  for (std::size_t i = 0; i < watched_.size();) {
    Station& station = *watched_[i];
    if (!station.running_) look_at(station);
    if (i < watched_.size() && watched_[i] == &station) ++i;
  }
}

bool Attendants::is_rung(const Station& station, const StreamTask& task) noexcept {
  return static_cast<std::int32_t>(base::look(station.words().bell) - task.gate_value_) >= 0;
}

// The same for one station, at which nobody is at work.
void Attendants::look_at(Station& station) {
  if (station.pending_.empty()) {
    if (station.departing_) see_off(station);
    if (!station.running_) settle_station(station);
    return;
  }
  StreamTask& task = station.pending_.front();
  if (task.rung_by_call_) {
    if (station.departing_) see_off(station);
    return;
  }
  if (!task.is_submitted()) {
    if (station.departing_) see_off(station);
    let_through_in_time(station, task);
    return;
  }
  const bool rung = is_rung(station, task);
  const bool may_begin = task.early && !station.is_kernel_inside();
  if (rung || may_begin) {
    if (station.departing_) see_off(station);
    if (station.running_) return;
    station.pending_.pop_front();
    station.running_ = true;
    due_.push_back({&station, &task});
  } else if (station.departing_) {
    see_off(station);
  }
}

// Its caller may be kept by a driver that waits for this stream.
void Attendants::let_through_in_time(Station& station, StreamTask& task) {
  if (task.is_let_through() || !is_rung(station, task)) return;
  const auto now = std::chrono::steady_clock::now();
  if (!task.rung_since_) task.rung_since_ = now;
  if (now - *task.rung_since_ > usual_launch) station.let_through(task);
}

// A kernel that does not begin for long is called off, by somebody who has the time.
void Attendants::see_off(Station& station) {
  const Courier::Kernel kernel = station.courier_->kernel(std::chrono::steady_clock::now());
  station.departing_ = kernel != Courier::Kernel::through;
  if (kernel != Courier::Kernel::overdue) return;
  station.running_ = true;
  due_.push_back({&station, nullptr});
}

// With the lock: the streams of contexts that are gone get nowhere any more. All others do, and wait at our gate then.
void Attendants::drop_the_dead() {
  // From the end on: the one that is settled leaves the list.
  for (std::size_t left = watched_.size(); left > 0; --left) {
    Station* const station = watched_[left - 1];
    if (station->running_ || !station->device_.health().is_gone) continue;
    station->condemned_.store(true);
    station->departing_ = false;
    while (!station->pending_.empty()) {
      StreamTask& task = station->pending_.front();
      station->pending_.pop_front();
      task.end();
    }
    settle_station(*station);
  }
  if (awaited_ > 0) ended_.advance();
}

// With the lock: the tasks with this subject, or all.
std::size_t Attendants::count_of(const void* subject) const {
  const auto same = [subject](const StreamTask* task) {
    return task != nullptr && !task->repeats && (subject == nullptr || task->subject == subject);
  };
  const auto is_of_same = [&](const Due& due) { return same(due.task); };
  auto count =
      std::count_if(due_.begin(), due_.end(), is_of_same) + std::count_if(at_work_.begin(), at_work_.end(), is_of_same);
  for (const Station* const station : watched_) {
    count += station->pending_.count_if(same) + std::count_if(station->rung_.begin(), station->rung_.end(), same);
  }
  return static_cast<std::size_t>(count);
}

bool Attendants::pending(const void* subject) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  return count_of(subject) > 0;
}

bool Attendants::wait_until_none(const void* subject, int milliseconds) noexcept {
  timespec deadline = base::in_time(std::chrono::milliseconds(milliseconds));
  std::unique_lock lock(mutex_);
  ++awaited_;
  take_in();
  std::size_t left = count_of(subject);
  bool in_good_time = true;
  while (left > 0 && in_good_time) {
    const std::uint32_t seen = ended_.now();
    lock.unlock();
    in_good_time = ended_.wait_beyond(seen, deadline);
    lock.lock();
    take_in();
    const std::size_t now = count_of(subject);
    if (now < left) deadline = base::in_time(std::chrono::milliseconds(milliseconds));
    left = std::min(left, now);
  }
  --awaited_;
  return count_of(subject) == 0;
}

std::size_t Attendants::station_count() noexcept {
  const std::lock_guard lock(mutex_);
  return stations_;
}

}  // namespace sluice::stream
