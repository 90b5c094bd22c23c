// SPDX-License-Identifier: Apache-2.0
#include "stream/channel/aside.h"

#include <pthread.h>

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "base/signals_blocked.h"
#include "observe/log.h"

namespace sluice::stream {

namespace {

std::atomic<bool> one_is_aside{false};

void work_aside(std::function<void()>& work) noexcept {
  work();
  work = nullptr;  // what it holds goes before the next one may come
  one_is_aside.store(false, std::memory_order_release);
}

}  // namespace

bool run_aside(std::function<void()> work) noexcept {
  if (one_is_aside.exchange(true, std::memory_order_acquire)) return false;
  const base::SignalsBlocked blocked;
  try {
    std::thread thread([work = std::move(work)]() mutable { work_aside(work); });
    ::pthread_setname_np(thread.native_handle(), "sluice-aside");
    thread.detach();  // a driver may keep it for longer than the process needs it
    return true;
  } catch (const std::exception& failure) {
    observe::log_failure(config::LogLevel::warn, "stream", "no neighbour's link is asked for a stream", failure.what());
    one_is_aside.store(false, std::memory_order_release);
    return false;
  }
}

bool is_aside() noexcept {
  return one_is_aside.load(std::memory_order_acquire);
}

void aside_after_fork_in_child() noexcept {
  one_is_aside.store(false, std::memory_order_relaxed);
}

}  // namespace sluice::stream
