// SPDX-License-Identifier: Apache-2.0
// The thread behind a queue.
#include "channel.h"

#include <utility>

#include "worker.h"

namespace sluice::softgpu {

void Channel::submit(Operation operation) {
  const std::lock_guard lock(mutex_);
  if (!started_) {
    start_worker("softgpu-queue", [self = shared_from_this()] { self->work(); });
    started_ = true;
  }
  queue_.push_back(std::move(operation));
  changed_.notify_all();
}

bool Channel::is_free() {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !works_;
}

void Channel::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Channel::work() {
  for (;;) {
    Operation operation;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      operation = std::move(queue_.front());
      queue_.pop_front();
      works_ = true;
    }
    // Waiting here, with the operation at the head, is what makes streams that share a channel wait for each other.
    for (const auto& earlier : operation.after) earlier->wait();
    if (operation.body && !operation.health->broken()) operation.body();
    // What the body holds on to is let go before any thread learns that the operation is done.
    operation.body = nullptr;
    {
      const std::lock_guard lock(mutex_);
      works_ = false;
    }
    operation.done->mark();
  }
}

}  // namespace sluice::softgpu
