// SPDX-License-Identifier: Apache-2.0
// What goes into a stream, in this order: the bytes of a write that is known by then, the doorbell, the gate, the
// kernel; and before all these, once, what a channel's kernels count with.
//
// The gate is for the device's sake: a kernel that stands behind it takes none of its processors while a disk is read.
// Before small reads of a file that had its bytes in the page cache the last time it is left out, and the kernel awaits
// them.
#include "stream/channel/stream_channel.h"

#include <algorithm>
#include <utility>

#include "base/processor.h"
#include "base/spin_backoff.h"
#include "stream/channel/stream_copier.h"
#include "stream/channel/stream_workers.h"
#include "workers/work_queue.h"

namespace sluice::stream {

namespace {

std::atomic<bool> host_functions{false};

bool is_reached(const std::uint32_t& word, std::uint32_t value) noexcept {
  return static_cast<std::int32_t>(base::load_acquire(word) - value) >= 0;
}

// A driver that takes longer to launch a kernel may be waiting for its stream.
constexpr auto usual_launch = std::chrono::milliseconds(2);

ChannelPool& pool() noexcept {
  return StreamWorkers::instance().pool();
}

}  // namespace

StreamChannel::StreamChannel(const gpu::StreamCopyMemory& memory)
    : memory_(memory), copier_(std::make_unique<StreamCopier>(*this)) {
  constexpr std::size_t more_than_ring_at_once =
      16;  // with the lock of all stream workers, where nothing may be refused
  rung_.reserve(more_than_ring_at_once);
}
StreamChannel::~StreamChannel() = default;

StreamChannel* StreamChannel::take(cuda::Context context, unsigned long long context_id) noexcept {
  return take_or_tell(context, context_id).channel;
}

TakenChannel StreamChannel::take_or_tell(cuda::Context context, unsigned long long context_id) noexcept {
  return pool().take(context, context_id);
}

void StreamChannel::give_back() noexcept {
  pool().give_back(*this);
}

bool StreamChannel::is_idle() noexcept {
  return pool().is_idle(*this);
}

void* StreamChannel::take_task_memory() noexcept {
  for (std::atomic<void*>& slot : task_memory_) {
    void* const memory = slot.exchange(nullptr, std::memory_order_acquire);
    if (memory == nullptr) continue;
    last_task_memory_.store(memory, std::memory_order_relaxed);
    return memory;
  }
  return nullptr;
}

// The room may be gone: fetching ahead from nowhere does nothing.
void StreamChannel::prefetch_task_memory(std::size_t size) const noexcept {
  base::fetch_to_write(&task_memory_);
  const auto* const memory = static_cast<const std::byte*>(last_task_memory_.load(std::memory_order_relaxed));
  for (std::size_t at = 0; memory != nullptr && at < size; at += line) base::fetch_to_write(memory + at);
}

bool StreamChannel::keep_task_memory(void* memory) noexcept {
  return std::any_of(task_memory_.begin(), task_memory_.end(), [memory](std::atomic<void*>& slot) {
    void* none = nullptr;
    return slot.compare_exchange_strong(none, memory, std::memory_order_release, std::memory_order_relaxed);
  });
}

void StreamChannel::use_host_functions() noexcept {
  host_functions.store(true);
}

// On a thread of CUDA's, for a graph: the stream itself waits at the gate.
void StreamChannel::doorbell_by_call(void* task) {
  auto& rung = *static_cast<StreamTask*>(task);
  StreamWorkers::instance().doorbell_rung(*rung.channel_, rung);
}

// Where streams cannot wait for a value: this thread waits in the place of the stream.
void StreamChannel::doorbell_and_wait_by_call(void* task) {
  auto& rung = *static_cast<StreamTask*>(task);
  StreamChannel& channel = *rung.channel_;
  const std::uint32_t value = rung.gate_value_;
  StreamWorkers::instance().doorbell_rung(channel, rung);  // the task may be gone from here on
  channel.wait_at_gate_on_host(value);
}

void StreamChannel::wait_at_gate_on_host(std::uint32_t value) const noexcept {
  for (;;) {
    const std::uint32_t seen = gate_event_.now();
    if (is_reached(words().gate, value)) return;
    gate_event_.wait_beyond(seen, std::nullopt);
  }
}

bool StreamChannel::is_kernel_inside() const noexcept {
  return last_launch_ && !gpu::has_reached(base::load_acquire(words().left), *last_launch_);
}

bool StreamChannel::needs_gate(const StreamTask& task) const noexcept {
  return task.blocks == 0 || !task.is_small_read || task.subject != cached_of_.load(std::memory_order_relaxed);
}

cuda::Result StreamChannel::put_into_stream(cuda::Stream stream, StreamTask& task) noexcept {
  if (task.prestaged_bytes > 0) {
    const cuda::Result result =
        device_.copy_to_host(stream, staging().first(task.prestaged_bytes), task.prestaged_from);
    if (result != cuda::success) return result;
  }
  if (!task.repeats && !host_functions.load(std::memory_order_relaxed)) {
    task.gated_ = needs_gate(task);
    const cuda::Result result =
        task.gated_ ? device_.ring_and_wait(stream, task.gate_value_) : device_.ring_doorbell(stream, task.gate_value_);
    if (result != cuda::error_not_supported) return result;
    host_functions.store(true);
  }
  task.gated_ = true;
  const gpu::CudaApi& driver = *gpu::driver();
  if (driver.launch_host_function == nullptr) return cuda::error_not_supported;
  task.rung_by_call_ = true;
  if (!task.repeats) {
    pool().expect_call(*this, task);
    const cuda::Result result = driver.launch_host_function(stream, &StreamChannel::doorbell_and_wait_by_call, &task);
    if (result != cuda::success) pool().forget(*this, task);
    return result;
  }
  cuda::Result result = device_.write_gate(stream, task.gate_value_ - 1);
  if (result == cuda::success) result = driver.launch_host_function(stream, &StreamChannel::doorbell_by_call, &task);
  if (result == cuda::success) result = device_.wait_at_gate(stream, task.gate_value_);
  return result;
}

// Where the driver refuses, the task does without a kernel.
cuda::Result StreamChannel::launch(cuda::Stream stream, StreamTask& task) noexcept {
  cuda::Result result = cuda::success;
  if (task.blocks > 0 && device_.launch(stream, task.blocks) != cuda::success) {
    kernel_refused_.store(true);
    task.blocks = 0;
    // Nothing else would hold the stream until its bytes are there.
    if (!std::exchange(task.gated_, true)) result = device_.wait_at_gate(stream, task.gate_value_);
  }
  return result;
}

// One that was let through, and has no kernel that would keep the stream, gets another gate. Where a call rang the
// doorbell, a stream worker has the task already, and the caller waits at that gate in the stream's place.
cuda::Result StreamChannel::end_submission(cuda::Stream stream, StreamTask& task) noexcept {
  if (task.becomes(StreamTask::Stage::submitted)) return cuda::success;
  task.gated_ = task.blocks == 0;
  const bool waits_here = task.gated_ && task.rung_by_call_;
  if (task.gated_) task.gate_value_ = ++sequence_;
  const std::uint32_t value = task.gate_value_;
  if (task.gated_ && !waits_here) {
    const cuda::Result result = device_.ring_and_wait(stream, value);
    if (result != cuda::success) return result;
  }
  task.stage_.store(StreamTask::Stage::submitted, std::memory_order_release);
  if (waits_here) wait_at_gate_on_host(value);
  return cuda::success;
}

bool StreamChannel::has_rung(const StreamTask& task) const noexcept {
  return !task.rung_by_call_ && task.is_submitted() && is_reached(words().doorbell, task.gate_value_);
}

void StreamChannel::release_gate_in_time(StreamTask& task) noexcept {
  if (task.is_released() || !is_reached(words().doorbell, task.gate_value_)) return;
  const auto now = std::chrono::steady_clock::now();
  if (!task.rung_since_) task.rung_since_ = now;
  if (now - *task.rung_since_ > usual_launch) release_gate(task);
}

void StreamChannel::release_gate(StreamTask& task) noexcept {
  const std::uint32_t value = task.gate_value_;
  if (!task.becomes(StreamTask::Stage::release_gate)) return;
  std::atomic_ref(words().gate).store(value, std::memory_order_release);
  if (task.rung_by_call_) gate_event_.advance();
}

cuda::Result StreamChannel::submit(cuda::Stream stream, StreamTask& task) noexcept try {
  task.wait_.begin(device_.stream_waits());
  StreamWorkers::instance().announce(helpers_for_a_stream(task.helpers));
  const std::lock_guard lock(submitting_);
  task.channel_ = this;
  task.gate_value_ = ++sequence_;
  const bool is_first = !device_.has_counters();
  // Before the doorbell: the channel serves no other stream before that has rung, and then they are there.
  if (task.blocks > 0 && (!has_kernel() || device_.write_counters(stream) != cuda::success)) task.blocks = 0;
  cuda::Result result = put_into_stream(stream, task);
  if (result != cuda::success) {
    if (is_first && device_.has_counters()) condemned_.store(true);  // another stream's kernel would not wait for them
    return result;
  }
  // One that a call has rung is known already, and may be gone once it is submitted.
  const bool kept_by_gate = task.gated_ && task.blocks > 0 && !task.rung_by_call_;
  const bool expected = !task.rung_by_call_ && !kept_by_gate;
  if (kept_by_gate) StreamWorkers::instance().expect(task);
  result = launch(stream, task);
  if (result == cuda::success) result = end_submission(stream, task);
  if (result != cuda::success) {
    if (kept_by_gate) pool().forget(*this, task);
    return result;
  }
  if (expected) StreamWorkers::instance().expect(task);
  return cuda::success;
} catch (...) {
  return cuda::error_out_of_memory;
}

cuda::Result StreamChannel::prepare_for_graph(const StreamTask& task) noexcept {
  const cuda::Result result = task.blocks > 0 ? device_.prepare_for_graph() : cuda::success;
  if (result != cuda::success && device_.has_counters()) condemned_.store(true);  // they may come late
  return result;
}

cuda::Result StreamChannel::submit_captured(cuda::Stream stream, StreamTask& task) noexcept {
  task.wait_.begin(device_.stream_waits());
  const std::lock_guard lock(submitting_);
  task.channel_ = this;
  task.gate_value_ = 1;
  task.repeats = true;
  if (task.blocks > 0 && !has_kernel()) return cuda::error_not_supported;
  cuda::Result result = put_into_stream(stream, task);
  if (result == cuda::success && task.blocks > 0) result = device_.launch(stream, task.blocks);
  task.stage_.store(StreamTask::Stage::submitted, std::memory_order_release);
  return result;
}

bool StreamChannel::run(StreamTask* task) noexcept {
  if (task == nullptr) {
    copier_->revoke_late();
    return false;
  }
  // Of a task that a call has rung, the caller may still be putting the rest into the stream, or be kept from it.
  base::SpinBackoff backoff;
  for (const auto begun = std::chrono::steady_clock::now(); !task->is_submitted(); backoff.wait()) {
    if (!task->is_released() && std::chrono::steady_clock::now() - begun > usual_launch) release_gate(*task);
  }
  if (task->blocks > 0) last_launch_ = next_number_;
  copier_->begin(*task);
  task->run(*copier_);
  copier_->finish();
  return copier_->waited_for_storage();
}

bool wait_for_stream_tasks(const void* subject, int milliseconds) noexcept {
  return pool().wait_until_none(subject, milliseconds);
}

Attendance attendance_of_streams() noexcept {
  return StreamWorkers::instance().attendance();
}

unsigned busy_streams() noexcept {
  return pool().busy();
}

unsigned peak_streams() noexcept {
  return pool().peak_streams();
}

unsigned helpers_for_a_stream(unsigned wanted) noexcept {
  if (wanted == 0) return 0;
  const unsigned processors = workers::worker_count() + 1;
  const unsigned theirs = processors > 2 ? processors - 2 : 1;
  const unsigned streams = std::min(peak_streams(), theirs);
  const unsigned spare = theirs - streams;
  return std::min(wanted, spare >= streams ? (spare + streams - 1) / streams : 0);
}

void load_unless_streams_wait(gpu::Kernels& kernels) noexcept {
  if (kernels.begun.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(kernels.deciding);
  const bool no_stream_waits = kernels.load_holds == 0 && !pool().any_busy(kernels.context, kernels.context_id);
  if (no_stream_waits && !kernels.begun.load(std::memory_order_relaxed)) gpu::begin_loading(kernels);
}

bool await_kernels_unless_streams_wait(gpu::Kernels& kernels, int milliseconds) noexcept {
  if (kernels.tried.load(std::memory_order_acquire)) return true;
  gpu::KernelLoadWait wait(kernels);
  load_unless_streams_wait(kernels);
  return wait.until_tried(milliseconds);
}

std::size_t stream_channel_count() noexcept {
  return pool().size();
}

void channels_before_fork() noexcept {
  StreamWorkers::before_fork();
}

void channels_after_fork(bool in_child) noexcept {
  StreamWorkers::after_fork(in_child);
}

}  // namespace sluice::stream
