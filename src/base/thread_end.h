// SPDX-License-Identifier: Apache-2.0
// Something to do when a thread ends. Not a thread_local object with a destructor: registering one takes memory, and
// where there is none the process is ended; it also counts as destroyed when the thread that calls exit() has come to
// its handlers, which may still make calls.
#pragma once

#include <pthread.h>

#include <atomic>

namespace sluice::base {

// Of static storage, one for each thing to do. Armed by each thread that wants it done.
class ThreadEnd {
 public:
  using Action = void (*)(void*);
  explicit constexpr ThreadEnd(Action action) noexcept : action_(action) {}

  // From now on `action` is called when this thread ends, after its thread_local objects are gone. It does not run in a
  // thread that ends by exit(), and where the process has no key left it does not run at all.
  void arm() noexcept {
    long key = key_.load(std::memory_order_acquire);
    if (key == none) {
      pthread_key_t made{};
      if (::pthread_key_create(&made, action_) != 0) return;
      if (key_.compare_exchange_strong(key, static_cast<long>(made))) {
        key = static_cast<long>(made);
      } else {
        ::pthread_key_delete(made);  // another thread was quicker
      }
    }
    ::pthread_setspecific(static_cast<pthread_key_t>(key), this);  // any value but null
  }

 private:
  static constexpr long none = -1;
  const Action action_;
  std::atomic<long> key_{none};
};

}  // namespace sluice::base
