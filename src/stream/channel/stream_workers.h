// SPDX-License-Identifier: Apache-2.0
// The stream workers: threads of which one polls the doorbells, and a free one runs what a stream has got to.
// They are made when they are needed, sleep while no stream has work of ours, and cost next to nothing while streams
// wait.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

#include "base/event_count.h"
#include "stream/channel/channel_pool.h"

namespace sluice::stream {

class StreamWorkers {
 public:
  static StreamWorkers& instance() noexcept;

  ChannelPool& pool() noexcept { return pool_; }

  // Is there a thread at all? The first one is started now; they never end. Without one no task may be put into a
  // stream.
  Attendance attendance() noexcept;

  // A task stands in its stream; its doorbell will be rung by the stream.
  void expect(StreamTask& task);
  // Called by a thread of CUDA's in the place of the stream.
  void doorbell_rung(StreamChannel& channel, StreamTask& task) noexcept;

  // A task that will want so many helpers is about to be put into a stream.
  void announce(unsigned helpers) noexcept;

  static void before_fork() noexcept;
  static void after_fork(bool in_child) noexcept;

 private:
  using Lock = ChannelPool::Lock;
  using Due = ChannelPool::Due;

  void run_worker() noexcept;
  bool serve(Lock& lock, const Due& due);
  void sleep_until_news(Lock& lock, std::chrono::steady_clock::time_point awake_until);
  bool poll(Lock& lock);
  bool looks_around_after(bool waited) const noexcept;
  bool poller_is_stuck() const noexcept;
  void wake_one(Lock& lock);
  void wake_peers(Lock& lock);
  void rouse() noexcept;
  Attendance start_one() noexcept;

  std::atomic<bool> started_{false};  // a thread; every call asks
  ChannelPool pool_;
  // With the pool's lock, but for what is atomic:
  std::atomic<unsigned> helpers_announced_{0};
  unsigned threads_ = 0;
  unsigned sleeping_ = 0;
  std::atomic<unsigned> looking_{0};  // of those that rest: not asleep
  bool has_poller_ = false;
  std::atomic<bool> poller_sleeps_ = false;
  std::atomic<bool> a_worker_is_awake_ = false;  // and will see what is announced
  bool has_watchdog_ = false;
  bool watchdog_called_ = false;
  std::chrono::microseconds eagerness_{};  // how long one looks without a pause after something has happened
  bool nothing_happens_ = false;           // nor has for a while: no watchdog is needed
  unsigned poll_turn_ = 0;                 // whose the present watch is
  std::optional<std::chrono::steady_clock::time_point> inside_since_;  // the poller is at work by itself
  base::EventCount event_;                                             // for those that rest
  base::EventCount poller_event_;                                      // for the one that watches
};

}  // namespace sluice::stream
