// SPDX-License-Identifier: Apache-2.0
// Tasks of streams in a row. Nothing is allocated: each task has the link to the next one, and stands in one row at a
// time.
#pragma once

#include <atomic>
#include <utility>

namespace sluice::stream {

// What stands in a row.
template <typename Task>
class Linked {
 private:
  template <typename>
  friend class TaskQueue;
  template <typename>
  friend class Arrivals;
  Task* next_ = nullptr;
};

// In the order in which they came; for one thread at a time.
template <typename Task>
class TaskQueue {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  Task& front() const noexcept { return *first_; }

  void push_back(Task& task) noexcept {
    link(task) = nullptr;
    (last_ != nullptr ? link(*last_) : first_) = &task;
    last_ = &task;
  }

  void pop_front() noexcept {
    first_ = link(*first_);
    if (first_ == nullptr) last_ = nullptr;
  }

  void erase(const Task& task) noexcept {
    Task* before = nullptr;
    for (Task* one = first_; one != nullptr; before = std::exchange(one, link(*one))) {
      if (one != &task) continue;
      (before != nullptr ? link(*before) : first_) = link(*one);
      if (last_ == one) last_ = before;
      return;
    }
  }

  template <typename Predicate>
  unsigned count_if(const Predicate& predicate) const {
    unsigned count = 0;
    for (Task* one = first_; one != nullptr; one = link(*one)) count += predicate(one) ? 1U : 0U;
    return count;
  }

 private:
  static Task*& link(Task& task) noexcept { return static_cast<Linked<Task>&>(task).next_; }

  Task* first_ = nullptr;
  Task* last_ = nullptr;
};

// Any thread puts in, without a lock; the taker takes all.
template <typename Task>
class Arrivals {
 public:
  bool empty() const noexcept { return newest_.load(std::memory_order_seq_cst) == nullptr; }

  // Sequentially consistent: a thread that puts something in and then finds no thread polling has put it in before the
  // last look.
  void put(Task& task) noexcept {
    Task* newest = newest_.load(std::memory_order_relaxed);
    do {
      link(task) = newest;
    } while (!newest_.compare_exchange_weak(newest, &task, std::memory_order_seq_cst, std::memory_order_relaxed));
  }

  // Calls `take` with each, the oldest first; which may put it into another row.
  template <typename Take>
  void take_all(const Take& take) {
    if (empty()) return;
    Task* newest = newest_.exchange(nullptr, std::memory_order_seq_cst);
    Task* oldest = nullptr;
    while (newest != nullptr) {
      Task* const before = std::exchange(link(*newest), oldest);
      oldest = std::exchange(newest, before);
    }
    while (oldest != nullptr) take(*std::exchange(oldest, link(*oldest)));
  }

 private:
  static Task*& link(Task& task) noexcept { return static_cast<Linked<Task>&>(task).next_; }

  std::atomic<Task*> newest_{nullptr};
};

}  // namespace sluice::stream
