// SPDX-License-Identifier: Apache-2.0
// Work that calls do not wait for: a thread does it, one piece after the other, and sleeps while there is none.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice::csi {

template <typename Item>
class WorkQueue {
 public:
  // `work` throws nothing. Give it the last place among a class's members: it is used as soon as there is an item.
  explicit WorkQueue(std::function<void(const Item&)> work) : work_(std::move(work)), thread_([this] { run(); }) {}
  // What is under way comes to its end; what waits is dropped.
  ~WorkQueue() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(Item item) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(item));
    }
    changed_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
      if (ended_) return;
      const Item item = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work_(item);
    }
  }

  std::function<void(const Item&)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> waiting_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace sluice::csi
