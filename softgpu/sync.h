// SPDX-License-Identifier: Apache-2.0
// Waiting: a condition variable for std::mutex, and a one-shot completion that threads and queues wait for.
#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace sluice::softgpu {

// pthread's condition variable; the standard one would need a newer libstdc++ at load time. It is never destroyed
// while a thread waits.
class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  template <typename Predicate>
  void wait(std::unique_lock<std::mutex>& lock, Predicate ready) {
    while (!ready()) ::pthread_cond_wait(&condition_, lock.mutex()->native_handle());
  }
  void notify_all() noexcept { ::pthread_cond_broadcast(&condition_); }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

// Goes from pending to done once. What the marking thread wrote before is seen by a thread that saw it done.
class Completion {
 public:
  bool done() const noexcept { return state_.load(std::memory_order_acquire) != 0; }
  void mark() noexcept {
    state_.store(1);  // before the look whether a thread waits
    state_.notify_all();
  }
  void wait() const noexcept { state_.wait(0, std::memory_order_acquire); }

 private:
  std::atomic<int> state_{0};
};

}  // namespace sluice::softgpu
