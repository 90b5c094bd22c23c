// SPDX-License-Identifier: Apache-2.0
// The stream workers: threads of which one polls the doorbells, and a free one runs what a stream has got to.
// They are made when they are needed, sleep while no stream has work of ours, and cost next to nothing while streams
// wait.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "base/adaptive_mutex.h"
#include "base/event_count.h"
#include "base/processor.h"
#include "stream/channel/stream_channel.h"

namespace sluice::stream {

class StreamWorkers {
 public:
  static StreamWorkers& instance() noexcept;

  TakenChannel take_channel(cuda::Context context, unsigned long long context_id) noexcept;
  void give_back(StreamChannel& channel) noexcept;
  bool is_idle(const StreamChannel& channel) noexcept;

  // Is there a thread at all? The first one is started now; they never end. Without one no task may be put into a
  // stream.
  bool are_there() noexcept;

  // A task stands in its stream; its doorbell will be rung by the stream.
  void expect(StreamTask& task);
  // A task whose doorbell is rung by a call stands in its stream. The count keeps those that ask about subjects right.
  void expect_call(StreamChannel& channel, StreamTask& task);
  void forget(StreamChannel& channel, StreamTask& task) noexcept;
  void doorbell_rung(StreamChannel& channel, StreamTask& task) noexcept;

  // Has a stream of that context work of ours?
  bool any_busy(cuda::Context context, unsigned long long context_id) noexcept;
  // How many streams have work of ours at a time, as far as can be told: now, or in the burst of work before.
  unsigned busy() const noexcept {
    return std::max(busy_.load(std::memory_order_relaxed), arrivals_.empty() ? 0U : 1U);
  }
  unsigned peak_streams() const noexcept {
    return std::max({1U, busy(), peak_.load(std::memory_order_relaxed), last_peak_.load(std::memory_order_relaxed)});
  }
  // A task that will want so many helpers is about to be put into a stream.
  void announce(unsigned helpers) noexcept;

  bool pending(const void* subject) noexcept;
  bool wait_until_none(const void* subject, int milliseconds) noexcept;
  std::size_t stream_channel_count() noexcept;

  static void before_fork() noexcept;
  static void after_fork(bool in_child) noexcept;

 private:
  struct Due {
    StreamChannel* channel;
    StreamTask* task;  // null: its kernel is to be revoked
  };

  StreamChannel* make_channel() noexcept;
  gpu::StreamCopyMemory take_memory() noexcept;
  void run_worker() noexcept;
  Due take_due();
  bool serve(std::unique_lock<base::AdaptiveMutex>& lock, const Due& due);
  void sleep_until_news(std::unique_lock<base::AdaptiveMutex>& lock, std::chrono::steady_clock::time_point awake_until);
  bool poll(std::unique_lock<base::AdaptiveMutex>& lock);
  bool looks_around_after(bool waited) const noexcept;
  bool poller_is_stuck() const noexcept;
  void collect();
  void look_at(StreamChannel& channel);
  // A driver that takes longer to launch a kernel may be waiting for its stream.
  static constexpr auto usual_launch = std::chrono::milliseconds(2);
  static bool is_rung(const StreamChannel& channel, const StreamTask& task) noexcept;
  void release_gate_in_time(StreamChannel& channel, StreamTask& task);
  void follow_departure(StreamChannel& channel);
  void keep_polling(StreamChannel& channel);
  void drop_the_dead();
  bool run(const Due& due) noexcept;
  void settle_channel(StreamChannel& channel);
  void wake_one(std::unique_lock<base::AdaptiveMutex>& lock);
  void wake_peers(std::unique_lock<base::AdaptiveMutex>& lock);
  void take_in();
  void put_behind(StreamChannel& channel, StreamTask& task);
  bool something_to_poll();
  bool look_away();
  void rouse() noexcept;
  bool start_one() noexcept;
  std::size_t count_of(const void* subject) const;

  std::atomic<bool> started_{false};  // a thread; every call asks
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
  std::atomic<unsigned> helpers_announced_{0};
  unsigned threads_ = 0;
  unsigned sleeping_ = 0;
  std::atomic<unsigned> looking_{0};  // of those that rest: not asleep
  bool something_arrived_ = false;    // since the poller looked at this
  bool has_poller_ = false;
  std::atomic<bool> poller_sleeps_ = false;
  std::atomic<bool> somebody_is_awake_ = false;  // and will see what is announced
  bool has_watchdog_ = false;
  bool watchdog_called_ = false;
  std::chrono::microseconds eagerness_{};  // how long one looks without a pause after something has happened
  bool nothing_happens_ = false;           // nor has for a while: no watchdog is needed
  unsigned poll_turn_ = 0;                 // whose the present watch is
  std::optional<std::chrono::steady_clock::time_point> inside_since_;  // the poller is at work by itself
  unsigned awaited_ = 0;                                               // threads in wait_until_none()
  base::EventCount event_;                                             // for those that rest
  base::EventCount poller_event_;                                      // for the one that watches
  base::EventCount ended_;
};

}  // namespace sluice::stream
