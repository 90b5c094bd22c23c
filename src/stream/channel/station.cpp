// What goes into a stream, in this order: the bytes of a write that is known by then, the bell, the gate, the kernel.
//
// The gate is for the device's sake: a kernel that stands behind it takes none of its processors while a disk is read.
// Before small reads of a file that had its bytes at hand the last time it is left out, and the kernel awaits them.
#include "stream/channel/station.h"

#include <algorithm>
#include <utility>

#include "base/fetch_ahead.h"
#include "base/pause.h"
#include "stream/channel/attendants.h"
#include "stream/channel/courier.h"
#include "workers/lanes.h"

namespace sluice::stream {

namespace {

std::atomic<bool> host_functions{false};

bool is_reached(const std::uint32_t& word, std::uint32_t value) noexcept {
  return static_cast<std::int32_t>(base::look(word) - value) >= 0;
}

}  // namespace

Station::Station(const gpu::ErrandMemory& memory) : memory_(memory), courier_(std::make_unique<Courier>(*this)) {
  constexpr std::size_t more_than_ring_at_once = 16;  // with the lock of all attendants, where nothing may be refused
  rung_.reserve(more_than_ring_at_once);
}
Station::~Station() = default;

Station* Station::take(cuda::Context context, unsigned long long context_id) noexcept {
  return Attendants::instance().take_station(context, context_id);
}

void Station::give_back() noexcept {
  Attendants::instance().give_back(*this);
}

bool Station::is_idle() noexcept {
  return Attendants::instance().is_idle(*this);
}

void* Station::take_room() noexcept {
  for (std::atomic<void*>& place : rooms_) {
    void* const room = place.exchange(nullptr, std::memory_order_acquire);
    if (room == nullptr) continue;
    last_room_.store(room, std::memory_order_relaxed);
    return room;
  }
  return nullptr;
}

// The room may be gone: fetching ahead from nowhere does nothing.
void Station::expect_room(std::size_t size) const noexcept {
  base::fetch_to_write(&rooms_);
  const auto* const room = static_cast<const std::byte*>(last_room_.load(std::memory_order_relaxed));
  for (std::size_t at = 0; room != nullptr && at < size; at += line) base::fetch_to_write(room + at);
}

bool Station::keep_room(void* room) noexcept {
  return std::any_of(rooms_.begin(), rooms_.end(), [room](std::atomic<void*>& place) {
    void* none = nullptr;
    return place.compare_exchange_strong(none, room, std::memory_order_release, std::memory_order_relaxed);
  });
}

void Station::use_host_functions() noexcept {
  host_functions.store(true);
}

// On a thread of CUDA's, for a graph: the stream itself waits at the gate.
void Station::ring_by_call(void* task) {
  auto& rung = *static_cast<StreamTask*>(task);
  Attendants::instance().ring(*rung.station_, rung);
}

// Where streams cannot wait for a value: this thread waits in the place of the stream.
void Station::ring_and_wait_by_call(void* task) {
  auto& rung = *static_cast<StreamTask*>(task);
  Station& station = *rung.station_;
  const std::uint32_t value = rung.gate_value_;
  Attendants::instance().ring(station, rung);  // the task may be gone from here on
  station.wait_at_gate_on_host(value);
}

void Station::wait_at_gate_on_host(std::uint32_t value) const noexcept {
  for (;;) {
    const std::uint32_t seen = gate_news_.now();
    if (is_reached(words().gate, value)) return;
    gate_news_.wait_beyond(seen, std::nullopt);
  }
}

bool Station::is_kernel_inside() const noexcept {
  return last_launch_ && !gpu::is_told_of(base::look(words().left), *last_launch_);
}

bool Station::needs_gate(const StreamTask& task) const noexcept {
  return task.blocks == 0 || task.early || !task.is_small_read ||
         task.subject != at_hand_of_.load(std::memory_order_relaxed);
}

int Station::put_into_stream(cuda::Stream stream, StreamTask& task) noexcept {
  if (task.fetched_bytes > 0) {
    const int result = device_.copy_to_host(stream, staging().first(task.fetched_bytes), task.fetched_from);
    if (result != cuda::success) return result;
  }
  if (!task.repeats && !host_functions.load(std::memory_order_relaxed)) {
    task.gated_ = needs_gate(task);
    const int result =
        task.gated_ ? device_.ring_and_wait(stream, task.gate_value_) : device_.ring_bell(stream, task.gate_value_);
    if (result != cuda::error_not_supported) return result;
    host_functions.store(true);
  }
  task.gated_ = true;
  const gpu::Driver& driver = *gpu::driver();
  if (driver.launch_host_function == nullptr) return cuda::error_not_supported;
  task.rung_by_call_ = true;
  task.early = false;  // no bell would say that the stream has got there
  if (!task.repeats) {
    Attendants::instance().expect_call(*this, task);
    const int result = driver.launch_host_function(stream, &Station::ring_and_wait_by_call, &task);
    if (result != cuda::success) Attendants::instance().forget(*this, task);
    return result;
  }
  int result = device_.write_gate(stream, task.gate_value_ - 1);
  if (result == cuda::success) result = driver.launch_host_function(stream, &Station::ring_by_call, &task);
  if (result == cuda::success) result = device_.wait_at_gate(stream, task.gate_value_);
  return result;
}

// Where the driver refuses, the task does without a kernel.
int Station::launch(cuda::Stream stream, StreamTask& task) noexcept {
  int result = cuda::success;
  if (task.blocks > 0 && device_.launch(stream, task.blocks) != cuda::success) {
    kernel_refused_.store(true);
    task.blocks = 0;
    // Nothing else would hold the stream until its bytes are there.
    if (!std::exchange(task.gated_, true)) result = device_.wait_at_gate(stream, task.gate_value_);
  }
  if (task.blocks == 0) task.early = false;  // no kernel keeps its bytes from the memory until the stream gets there
  return result;
}

// One that was let through, and has no kernel that would keep the stream, gets another gate. Where a call rang the
// bell, an attendant has the task already, and the caller waits at that gate in the stream's place.
int Station::end_submission(cuda::Stream stream, StreamTask& task) noexcept {
  if (task.becomes(StreamTask::Stage::submitted)) return cuda::success;
  task.gated_ = task.blocks == 0;
  const bool waits_here = task.gated_ && task.rung_by_call_;
  if (task.gated_) task.gate_value_ = ++sequence_;
  const std::uint32_t value = task.gate_value_;
  if (task.gated_ && !waits_here) {
    const int result = device_.ring_and_wait(stream, value);
    if (result != cuda::success) return result;
  }
  task.stage_.store(StreamTask::Stage::submitted, std::memory_order_release);
  if (waits_here) wait_at_gate_on_host(value);
  return cuda::success;
}

void Station::let_through(StreamTask& task) noexcept {
  const std::uint32_t value = task.gate_value_;
  if (!task.becomes(StreamTask::Stage::let_through)) return;
  std::atomic_ref(words().gate).store(value, std::memory_order_release);
  if (task.rung_by_call_) gate_news_.advance();
}

int Station::submit(cuda::Stream stream, StreamTask& task) noexcept try {
  Attendants::instance().announce(hands_for_a_stream(task.hands));
  const std::lock_guard lock(submitting_);
  task.station_ = this;
  task.gate_value_ = ++sequence_;
  if (task.blocks > 0 && !has_kernel()) task.blocks = 0;
  int result = put_into_stream(stream, task);
  if (result != cuda::success) return result;
  // One that a call has rung is known already, and may be gone once it is submitted.
  const bool kept_by_gate = task.gated_ && task.blocks > 0 && !task.rung_by_call_;
  const bool expected = !task.rung_by_call_ && !kept_by_gate;
  if (kept_by_gate) Attendants::instance().expect(task);
  result = launch(stream, task);
  if (result == cuda::success) result = end_submission(stream, task);
  if (result != cuda::success) {
    if (kept_by_gate) Attendants::instance().forget(*this, task);
    return result;
  }
  if (expected) Attendants::instance().expect(task);
  return cuda::success;
} catch (...) {
  return cuda::error_out_of_memory;
}

int Station::submit_captured(cuda::Stream stream, StreamTask& task) noexcept {
  const std::lock_guard lock(submitting_);
  task.station_ = this;
  task.gate_value_ = 1;
  task.repeats = true;
  if (task.blocks > 0 && !has_kernel()) return cuda::error_not_supported;
  int result = put_into_stream(stream, task);
  if (result == cuda::success && task.blocks > 0) result = device_.launch(stream, task.blocks);
  task.stage_.store(StreamTask::Stage::submitted, std::memory_order_release);
  return result;
}

bool stream_tasks_pending(const void* subject) noexcept {
  return Attendants::instance().pending(subject);
}

bool wait_for_stream_tasks(const void* subject, int milliseconds) noexcept {
  return Attendants::instance().wait_until_none(subject, milliseconds);
}

bool streams_are_attended() noexcept {
  return Attendants::instance().are_there();
}

unsigned busy_streams() noexcept {
  return Attendants::instance().busy();
}

unsigned companion_streams() noexcept {
  return Attendants::instance().companions();
}

unsigned hands_for_a_stream(unsigned wanted) noexcept {
  if (wanted == 0) return 0;
  const unsigned processors = workers::lane_count() + 1;
  const unsigned theirs = processors > 2 ? processors - 2 : 1;
  const unsigned streams = std::min(companion_streams(), theirs);
  const unsigned spare = theirs - streams;
  return std::min(wanted, spare >= streams ? (spare + streams - 1) / streams : 0);
}

void load_unless_streams_wait(gpu::Kernels& kernels) noexcept {
  if (kernels.begun.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(kernels.deciding);
  const bool nobody_waits =
      kernels.going_without == 0 && !Attendants::instance().any_busy(kernels.context, kernels.context_id);
  if (nobody_waits && !kernels.begun.load(std::memory_order_relaxed)) gpu::begin_loading(kernels);
}

std::size_t station_count() noexcept {
  return Attendants::instance().station_count();
}

void stations_before_fork() noexcept {
  Attendants::before_fork();
}

void stations_after_fork(bool in_child) noexcept {
  Attendants::after_fork(in_child);
}

}  // namespace sluice::stream
