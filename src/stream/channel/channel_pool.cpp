// SPDX-License-Identifier: Apache-2.0
// A channel rests, runs or departs (StreamChannel::State); every change of that is here.
#include "stream/channel/channel_pool.h"

#include <new>
#include <utility>

#include "base/page_size.h"
#include "base/spin_backoff.h"
#include "gpu/staging_memory.h"
#include "stream/channel/stream_copier.h"

namespace sluice::stream {

using State = StreamChannel::State;

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
gpu::StreamCopyMemory ChannelPool::take_memory() noexcept try {
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

StreamChannel* ChannelPool::make_channel() noexcept {
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

TakenChannel ChannelPool::take(cuda::Context context, unsigned long long context_id) noexcept try {
  std::unique_lock lock(mutex_);
  const auto serves = [&](const StreamChannel* channel) {
    return channel->device_.serves(context, context_id) && !channel->condemned_.load(std::memory_order_relaxed);
  };
  auto found = std::find_if(idle_.rbegin(), idle_.rend(), serves);
  if (found == idle_.rend()) {
    // One that the driver refused to serve before.
    found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const StreamChannel* channel) {
      return channel->device_.may_become(context, context_id);
    });
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

void ChannelPool::give_back(StreamChannel& channel) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  channel.kept_ = false;
  settle(channel);
}

bool ChannelPool::is_idle(const StreamChannel& channel) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  return channel.state_ == State::resting && channel.pending_.empty();
}

bool ChannelPool::any_busy(cuda::Context context, unsigned long long context_id) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  return std::any_of(polled_.begin(), polled_.end(), [&](const StreamChannel* channel) {
    return channel->busy_ && channel->device_.serves(context, context_id);
  });
}

void ChannelPool::keep_polling(StreamChannel& channel) {
  if (channel.polled_) return;
  channel.polled_ = true;
  polled_.push_back(&channel);
}

// To the idle ones, when nothing is left to wait for.
void ChannelPool::settle(StreamChannel& channel) {
  if (channel.state_ == State::running || !channel.pending_.empty()) return;
  if (channel.busy_) {
    channel.busy_ = false;
    if (busy_.fetch_sub(1, std::memory_order_relaxed) == 1) {
      last_peak_.store(peak_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      peak_.store(0, std::memory_order_relaxed);
    }
  }
  if (channel.state_ == State::departing) return keep_polling(channel);
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

void ChannelPool::take_in() {
  arrivals_.take_all([this](StreamTask& task) {
    put_behind(*task.channel_, task);
    something_arrived_ = true;
  });
}

void ChannelPool::put_behind(StreamChannel& channel, StreamTask& task) {
  channel.pending_.push_back(task);
  keep_polling(channel);
  if (channel.busy_) return;
  channel.busy_ = true;
  const unsigned busy = busy_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (busy > peak_.load(std::memory_order_relaxed)) peak_.store(busy, std::memory_order_relaxed);
}

void ChannelPool::collect() {
  for (std::size_t i = 0; i < polled_.size();) {
    StreamChannel& channel = *polled_[i];
    if (channel.state_ != State::running) look_at(channel);
    if (i < polled_.size() && polled_[i] == &channel) ++i;
  }
}

// The same for one channel, at which no worker is at work.
void ChannelPool::look_at(StreamChannel& channel) {
  StreamTask* const next = channel.pending_.empty() ? nullptr : &channel.pending_.front();
  if (next != nullptr && channel.is_being_submitted(*next)) channel.release_gate_in_time(*next);
  if (channel.state_ == State::departing) follow_departure(channel);
  if (channel.state_ == State::running) return;
  if (next == nullptr) return settle(channel);
  if (!channel.has_rung(*next)) return;
  channel.pending_.pop_front();
  channel.state_ = State::running;
  due_.push_back({&channel, next});
}

// A kernel that does not begin for long is revoked, by a thread that has the time.
void ChannelPool::follow_departure(StreamChannel& channel) {
  switch (channel.copier_->kernel(std::chrono::steady_clock::now())) {
    case StreamCopier::Kernel::awaited:
      return;
    case StreamCopier::Kernel::through:
      channel.state_ = State::resting;
      channel.wait_.end();
      return;
    case StreamCopier::Kernel::overdue:
      channel.state_ = State::running;
      due_.push_back({&channel, nullptr});
  }
}

bool ChannelPool::ring(StreamChannel& channel, StreamTask& task) {
  take_in();
  channel.pending_.erase(task);
  // The stream may be here before the stream worker of the task before has put its things in order.
  if (channel.state_ == State::running) {
    channel.rung_.push_back(&task);
    return false;
  }
  channel.state_ = State::running;
  due_.push_back({&channel, &task});
  return true;
}

ChannelPool::Due ChannelPool::take_due() {
  const Due due = due_.front();
  due_.erase(due_.begin());
  at_work_.push_back(due);
  return due;
}

void ChannelPool::end(const Due& due) {
  StreamChannel& channel = *due.channel;
  std::erase_if(at_work_, [&](const Due& one) { return one.channel == &channel && one.task == due.task; });
  if (due.task != nullptr && !due.task->repeats) {
    channel.wait_ = std::move(due.task->wait_);
    due.task->end();
  }
  if (channel.rung_.empty()) {
    take_in();  // the channel's next task, perhaps
    const bool is_through = channel.copier_->kernel(std::chrono::steady_clock::now()) == StreamCopier::Kernel::through;
    channel.state_ = is_through ? State::resting : State::departing;
    if (is_through) channel.wait_.end();
    settle(channel);
  } else {
    due_.push_back({&channel, channel.rung_.front()});
    channel.rung_.erase(channel.rung_.begin());
  }
  if (awaited_ > 0) ended_.advance();
}

void ChannelPool::expect_call(StreamChannel& channel, StreamTask& task) {
  const std::lock_guard lock(mutex_);
  take_in();
  put_behind(channel, task);
}

void ChannelPool::forget(StreamChannel& channel, StreamTask& task) noexcept {
  const std::lock_guard lock(mutex_);
  take_in();
  channel.pending_.erase(task);
}

bool ChannelPool::look_away() {
  poller_sees_.store(false, std::memory_order_seq_cst);
  const bool any = !arrivals_.empty();
  take_in();
  return any;
}

bool ChannelPool::something_to_poll() {
  take_in();
  if (!polled_.empty()) return true;
  look_away();
  if (polled_.empty()) return false;
  poller_sees_.store(true, std::memory_order_seq_cst);
  return true;
}

void ChannelPool::drop_the_dead() {
  // From the end on: the one that is settled leaves the list.
  for (std::size_t left = polled_.size(); left > 0; --left) {
    StreamChannel* const channel = polled_[left - 1];
    // What a call is still putting into the stream is that call's: it comes with a later look.
    const auto is_being_put = [](const StreamTask* task) { return !task->is_submitted(); };
    if (channel->state_ == State::running || channel->pending_.count_if(is_being_put) > 0 ||
        !channel->device_.health().is_gone) {
      continue;
    }
    channel->condemned_.store(true);
    channel->state_ = State::resting;
    channel->wait_.end();
    while (!channel->pending_.empty()) {
      StreamTask& task = channel->pending_.front();
      channel->pending_.pop_front();
      task.end();
    }
    settle(*channel);
  }
  if (awaited_ > 0) ended_.advance();
}

// The tasks with this subject, or all.
std::size_t ChannelPool::count_of(const void* subject) const {
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

// In steps, of which a machine that stands still for a while takes one: a virtual one that is moved, or a process that
// is stopped.
bool ChannelPool::wait_until_none(const void* subject, int milliseconds) noexcept {
  constexpr int steps = 20;
  const auto end_of_step = [&] { return base::deadline_in(std::chrono::milliseconds(milliseconds) / steps); };
  timespec deadline = end_of_step();
  std::unique_lock lock(mutex_);
  ++awaited_;
  take_in();
  std::size_t left = count_of(subject);
  for (int in_vain = 0; left > 0 && in_vain < steps;) {
    const std::uint32_t seen = ended_.now();
    lock.unlock();
    const bool in_time = ended_.wait_beyond(seen, deadline);  // others may end, too
    lock.lock();
    take_in();
    const std::size_t now = count_of(subject);
    if (now < left) {
      in_vain = 0;
    } else if (!in_time) {
      ++in_vain;
    }
    if (now < left || !in_time) deadline = end_of_step();
    left = std::min(left, now);
  }
  --awaited_;
  return count_of(subject) == 0;
}

std::size_t ChannelPool::size() noexcept {
  const std::lock_guard lock(mutex_);
  return channels_;
}

}  // namespace sluice::stream
