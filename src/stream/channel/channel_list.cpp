// SPDX-License-Identifier: Apache-2.0
// What the stream workers keep in order, and look at in turn: the channels, the doorbells of their streams, the kernels
// that have yet to begin. Threads are in stream_workers.cpp.
#include <algorithm>
#include <new>

#include "base/page_size.h"
#include "base/spin_backoff.h"
#include "gpu/staging_memory.h"
#include "stream/channel/stream_copier.h"
#include "stream/channel/stream_workers.h"

namespace sluice::stream {

namespace {

// Beyond so many channels those of contexts that are gone are used again.
constexpr std::size_t usual_channels = 256;

// Staging memory of three channels stands in two huge pages of 2 MiB, and their words ahead of it. Words and staging
// memory are pinned each by itself, so they have pages of their own.
constexpr std::size_t channels_in_a_block = 3;
constexpr std::size_t staging_bytes = std::size_t{4} << 20;
static_assert(channels_in_a_block * gpu::stream_copy_staging_bytes <= staging_bytes);
static_assert(gpu::stream_copy_staging_bytes % (std::size_t{64} << 10) == 0, "whole pages, however large");

}  // namespace

// None where there is none to be mapped, or to remember the rest of a block with.
gpu::StreamCopyMemory StreamWorkers::take_memory() noexcept try {
  const std::lock_guard lock(mutex_);
  if (memory_.empty()) {
    memory_.reserve(channels_in_a_block);
    const std::size_t words_bytes = base::whole_pages(gpu::stream_copy_words_bytes, base::page_size());
    const std::size_t ahead = channels_in_a_block * words_bytes;
    std::byte* const block = gpu::map_staging({.ahead = ahead, .bulk = staging_bytes});
    for (std::size_t left = block == nullptr ? 0 : channels_in_a_block; left > 0; --left) {
      memory_.push_back(
          {block + (left - 1) * words_bytes, block + ahead + (left - 1) * gpu::stream_copy_staging_bytes});
    }
  }
  if (memory_.empty()) return {};
  const gpu::StreamCopyMemory memory = memory_.back();
  memory_.pop_back();
  return memory;
} catch (const std::bad_alloc&) {
  return {};
}

StreamChannel* StreamWorkers::make_channel() noexcept {
  const gpu::StreamCopyMemory memory = take_memory();
  if (memory.words == nullptr) return nullptr;
  try {
    return new StreamChannel(memory);
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    // Where it came from; another block was mapped meanwhile where there is no room: then it stays unused.
    if (memory_.size() < memory_.capacity()) memory_.push_back(memory);
    return nullptr;
  }
}

TakenChannel StreamWorkers::take_channel(cuda::Context context, unsigned long long context_id) noexcept try {
  std::unique_lock lock(mutex_);
  const auto serves = [&](const StreamChannel* channel) {
    return channel->device_.serves(context, context_id) && !channel->condemned_.load(std::memory_order_relaxed);
  };
  auto found = std::find_if(idle_.rbegin(), idle_.rend(), serves);
  if (found == idle_.rend()) {
    // One that the driver refused to serve before.
    found = std::find_if(idle_.rbegin(), idle_.rend(),
                         [](const StreamChannel* channel) { return !channel->device_.is_attached(); });
  }
  if (found == idle_.rend() && channels_ >= usual_channels) {
    // Of a context that lives, a stream may not have seen yet that its gate is open.
    found = std::find_if(idle_.rbegin(), idle_.rend(),
                         [](const StreamChannel* channel) { return channel->device_.health().is_gone; });
  }
  StreamChannel* channel = nullptr;
  if (found != idle_.rend()) {
    channel = *found;
    idle_.erase(std::next(found).base());
  } else {
    idle_.reserve(channels_ + 1);  // giving back never allocates
    polled_.reserve(channels_ + 1);
    due_.reserve(channels_ + 1);
    at_work_.reserve(channels_ + 1);
    ++channels_;
  }
  lock.unlock();
  if (channel == nullptr) {
    channel = make_channel();
    if (channel == nullptr) {
      lock.lock();
      --channels_;
      return {};
    }
  }
  channel->kept_ = true;
  channel->kernel_refused_.store(false);
  if (serves(channel)) return {channel, cuda::success};
  channel->words() = {};
  channel->sequence_ = 0;
  channel->next_number_ = gpu::first_stream_copy;
  channel->condemned_.store(false);
  const cuda::Result result = channel->device_.attach(context, context_id, channel->memory_);
  if (result == cuda::success) return {channel, result};
  lock.lock();
  channel->kept_ = false;
  idle_.push_back(channel);
  return {nullptr, result};
} catch (...) {
  return {};
}

void StreamWorkers::give_back(StreamChannel& channel) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  channel.kept_ = false;
  settle_channel(channel);
}

bool StreamWorkers::is_idle(const StreamChannel& channel) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  return !channel.running_ && !channel.departing_ && channel.pending_.empty();
}

bool StreamWorkers::any_busy(cuda::Context context, unsigned long long context_id) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  return std::any_of(polled_.begin(), polled_.end(), [&](const StreamChannel* channel) {
    return channel->busy_ && channel->device_.serves(context, context_id);
  });
}

void StreamWorkers::keep_polling(StreamChannel& channel) {
  if (channel.polled_) return;
  channel.polled_ = true;
  polled_.push_back(&channel);
}

// With the lock: to the idle ones, when nothing is left to wait for.
void StreamWorkers::settle_channel(StreamChannel& channel) {
  if (channel.running_ || !channel.pending_.empty()) return;
  if (channel.busy_) {
    channel.busy_ = false;
    if (busy_.fetch_sub(1, std::memory_order_relaxed) == 1) {
      last_peak_.store(peak_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      peak_.store(0, std::memory_order_relaxed);
    }
  }
  if (channel.departing_) return keep_polling(channel);
  if (channel.is_kernel_inside() && !channel.condemned_.load()) {
    if (!channel.kept_) keep_polling(channel);  // until the kernel is out
    return;
  }
  channel.last_launch_.reset();
  if (channel.polled_) {
    channel.polled_ = false;
    std::erase(polled_, &channel);
  }
  if (!channel.kept_) idle_.push_back(&channel);
}

// With the lock: what has been put into streams since the last look.
void StreamWorkers::take_in() {
  arrivals_.take_all([this](StreamTask& task) {
    put_behind(*task.channel_, task);
    something_arrived_ = true;
  });
}

void StreamWorkers::put_behind(StreamChannel& channel, StreamTask& task) {
  channel.pending_.push_back(task);
  keep_polling(channel);
  if (channel.busy_) return;
  channel.busy_ = true;
  const unsigned busy = busy_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (busy > peak_.load(std::memory_order_relaxed)) peak_.store(busy, std::memory_order_relaxed);
}

// With the lock: what has become due since the last look.
void StreamWorkers::collect() {
  for (std::size_t i = 0; i < polled_.size();) {
    StreamChannel& channel = *polled_[i];
    if (!channel.running_) look_at(channel);
    if (i < polled_.size() && polled_[i] == &channel) ++i;
  }
}

bool StreamWorkers::is_rung(const StreamChannel& channel, const StreamTask& task) noexcept {
  return static_cast<std::int32_t>(base::load_acquire(channel.words().doorbell) - task.gate_value_) >= 0;
}

// The same for one channel, at which nobody is at work.
void StreamWorkers::look_at(StreamChannel& channel) {
  if (channel.pending_.empty()) {
    if (channel.departing_) follow_departure(channel);
    if (!channel.running_) settle_channel(channel);
    return;
  }
  StreamTask& task = channel.pending_.front();
  if (task.rung_by_call_) {
    if (channel.departing_) follow_departure(channel);
    return;
  }
  if (!task.is_submitted()) {
    if (channel.departing_) follow_departure(channel);
    release_gate_in_time(channel, task);
    return;
  }
  if (is_rung(channel, task)) {
    if (channel.departing_) follow_departure(channel);
    if (channel.running_) return;
    channel.pending_.pop_front();
    channel.running_ = true;
    due_.push_back({&channel, &task});
  } else if (channel.departing_) {
    follow_departure(channel);
  }
}

// Its caller may be kept by a driver that waits for this stream.
void StreamWorkers::release_gate_in_time(StreamChannel& channel, StreamTask& task) {
  if (task.is_released() || !is_rung(channel, task)) return;
  const auto now = std::chrono::steady_clock::now();
  if (!task.rung_since_) task.rung_since_ = now;
  if (now - *task.rung_since_ > usual_launch) channel.release_gate(task);
}

// A kernel that does not begin for long is revoked, by a thread that has the time.
void StreamWorkers::follow_departure(StreamChannel& channel) {
  const StreamCopier::Kernel kernel = channel.copier_->kernel(std::chrono::steady_clock::now());
  channel.departing_ = kernel != StreamCopier::Kernel::through;
  if (kernel != StreamCopier::Kernel::overdue) return;
  channel.running_ = true;
  due_.push_back({&channel, nullptr});
}

// With the lock: the streams of contexts that are gone get nowhere any more. All others do, and wait at our gate then.
void StreamWorkers::drop_the_dead() {
  // From the end on: the one that is settled leaves the list.
  for (std::size_t left = polled_.size(); left > 0; --left) {
    StreamChannel* const channel = polled_[left - 1];
    if (channel->running_ || !channel->device_.health().is_gone) continue;
    channel->condemned_.store(true);
    channel->departing_ = false;
    while (!channel->pending_.empty()) {
      StreamTask& task = channel->pending_.front();
      channel->pending_.pop_front();
      task.end();
    }
    settle_channel(*channel);
  }
  if (awaited_ > 0) ended_.advance();
}

// With the lock: the tasks with this subject, or all.
std::size_t StreamWorkers::count_of(const void* subject) const {
  const auto same = [subject](const StreamTask* task) {
    return task != nullptr && !task->repeats && (subject == nullptr || task->subject == subject);
  };
  const auto is_of_same = [&](const Due& due) { return same(due.task); };
  auto count =
      std::count_if(due_.begin(), due_.end(), is_of_same) + std::count_if(at_work_.begin(), at_work_.end(), is_of_same);
  for (const StreamChannel* const channel : polled_) {
    count += channel->pending_.count_if(same) + std::count_if(channel->rung_.begin(), channel->rung_.end(), same);
  }
  return static_cast<std::size_t>(count);
}

bool StreamWorkers::pending(const void* subject) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  return count_of(subject) > 0;
}

bool StreamWorkers::wait_until_none(const void* subject, int milliseconds) noexcept {
  timespec deadline = base::deadline_in(std::chrono::milliseconds(milliseconds));
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
    if (now < left) deadline = base::deadline_in(std::chrono::milliseconds(milliseconds));
    left = std::min(left, now);
  }
  --awaited_;
  return count_of(subject) == 0;
}

std::size_t StreamWorkers::stream_channel_count() noexcept {
  const std::lock_guard lock(mutex_);
  return channels_;
}

}  // namespace sluice::stream
