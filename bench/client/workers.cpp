// SPDX-License-Identifier: Apache-2.0
#include "client/workers.h"

#include <utility>

namespace sluice::bench {

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    leave_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::run(unsigned count, const std::function<void(unsigned)>& task) {
  std::unique_lock lock(mutex_);
  while (threads_.size() < count) threads_.emplace_back(&Workers::live, this, static_cast<unsigned>(threads_.size()));
  task_ = &task;
  wanted_ = open_ = count;
  failure_ = nullptr;
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return open_ == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Workers::live(unsigned index) {
  std::unique_lock lock(mutex_);
  unsigned seen = 0;
  while (true) {
    changed_.wait(lock, [&] { return leave_ || (round_ != seen && index < wanted_ && open_ != 0); });
    if (leave_) return;
    seen = round_;
    const auto* const task = task_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      gpu_->enter();
      (*task)(index);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    if (--open_ == 0) changed_.notify_all();
  }
}

}  // namespace sluice::bench
