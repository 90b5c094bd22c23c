// SPDX-License-Identifier: Apache-2.0
// The channels of all streams, and what has become of the tasks in them: which wait for their doorbell, which are due,
// which have left a kernel behind. Looks and bookkeeping alone; the threads are stream_workers.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "base/adaptive_mutex.h"
#include "base/event_count.h"
#include "base/processor.h"
#include "stream/channel/stream_channel.h"

namespace sluice::stream {

class ChannelPool {
 public:
  // Guards every state of a channel. Held for some looks at words in memory, never while bytes move.
  using Lock = std::unique_lock<base::AdaptiveMutex>;
  Lock lock() { return Lock(mutex_); }

  // A channel with a task to run; without one, its kernel is to be revoked.
  struct Due {
    StreamChannel* channel;
    StreamTask* task;
  };

  // --- These take the lock themselves.

  TakenChannel take(cuda::Context context, unsigned long long context_id) noexcept;
  void give_back(StreamChannel& channel) noexcept;
  bool is_idle(const StreamChannel& channel) noexcept;
  // Has a stream of that context work of ours?
  bool any_busy(cuda::Context context, unsigned long long context_id) noexcept;
  bool wait_until_none(const void* subject, int milliseconds) noexcept;
  std::size_t size() noexcept;
  // A task whose doorbell is rung by a call stands in its stream. The count keeps those that ask about subjects right.
  void expect_call(StreamChannel& channel, StreamTask& task);
  void forget(StreamChannel& channel, StreamTask& task) noexcept;

  // --- Without it.

  // A task stands in its stream; the stream will ring. Answers whether a poller is sure to see it. The task may be over
  // at once.
  bool arrive(StreamTask& task) noexcept {
    arrivals_.put(task);
    return poller_sees_.load(std::memory_order_seq_cst);
  }
  // How many streams have work of ours at a time, as far as can be told: now, or in the burst of work before.
  unsigned busy() const noexcept {
    return std::max(busy_.load(std::memory_order_relaxed), arrivals_.empty() ? 0U : 1U);
  }
  unsigned peak_streams() const noexcept {
    return std::max({1U, busy(), peak_.load(std::memory_order_relaxed), last_peak_.load(std::memory_order_relaxed)});
  }

  // --- With it.

  // What has been put into streams since the last look.
  void take_in();
  // Has anything been taken in since this was asked last?
  bool something_arrived() noexcept { return std::exchange(something_arrived_, false); }
  // A call has rung. Answers whether the task is due: otherwise the one before is still at work.
  bool ring(StreamChannel& channel, StreamTask& task);

  bool any_polled() const noexcept { return !polled_.empty(); }
  // What has become due since the last look.
  void collect();
  // By the poller or its successor. A call that puts a task into a stream from here on makes sure itself that it will
  // be seen; what was put there before is taken in. Answers whether there was any.
  bool look_away();
  // The same, where nothing is left.
  bool something_to_poll();
  void look() noexcept {
    if (!poller_sees_.load(std::memory_order_relaxed)) poller_sees_.store(true, std::memory_order_seq_cst);
  }
  // The streams of contexts that are gone get nowhere any more. All others do, and wait at our gate then.
  void drop_the_dead();

  bool any_due() const noexcept { return !due_.empty(); }
  Due take_due();
  // It has been run.
  void end(const Due& due);
  std::size_t at_work() const noexcept { return at_work_.size(); }

  void before_fork() noexcept { mutex_.lock(); }
  void after_fork() noexcept { mutex_.unlock(); }

 private:
  StreamChannel* make_channel() noexcept;
  gpu::StreamCopyMemory take_memory() noexcept;
  void look_at(StreamChannel& channel);
  void follow_departure(StreamChannel& channel);
  void put_behind(StreamChannel& channel, StreamTask& task);
  void keep_polling(StreamChannel& channel);
  void settle(StreamChannel& channel);
  std::size_t count_of(const void* subject) const;

  // What calls and the poller pass to each other, apart from what the poller alone writes all the time.
  static constexpr std::size_t line = base::line_bytes;
  alignas(line) Arrivals<StreamTask> arrivals_;  // in their streams, and not yet behind those that stand there before
  std::atomic<bool> poller_sees_{false};         // and will see what arrives
  alignas(line) base::AdaptiveMutex mutex_;
  std::vector<StreamChannel*> polled_;
  std::vector<StreamChannel*> idle_;
  std::vector<Due> due_;  // the oldest first; few, and its memory stays
  std::vector<Due> at_work_;
  std::size_t channels_ = 0;
  std::vector<gpu::StreamCopyMemory> memory_;  // mapped for channels that there may be
  std::atomic<unsigned> busy_{0};
  std::atomic<unsigned> peak_{0};  // of busy_ since it was 0
  std::atomic<unsigned> last_peak_{0};
  bool something_arrived_ = false;
  unsigned awaited_ = 0;  // threads in wait_until_none()
  base::EventCount ended_;
};

}  // namespace sluice::stream
