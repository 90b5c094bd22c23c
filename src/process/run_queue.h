// SPDX-License-Identifier: Apache-2.0
// Objects that have something waiting to be begun, in turn, and the job in the background that workers do for them. A
// lock is taken to post an object, and by a worker that looks for one; never for what waits in them.
#pragma once

#include <mutex>

#include "base/never_destroyed.h"
#include "workers/work_queue.h"

namespace sluice::process {

// A member `link` of the object, which is the queue's alone.
template <typename Object>
struct RunQueueLink {
  Object* before = nullptr;
  Object* next = nullptr;
  bool listed = false;
  bool dropped = false;  // for good
};

// One of a kind of objects. They say how many workers could begin something (`ready()`), whether one could
// (`has_waiting()`), and of what kind the job is (`background`); a worker that comes runs `Object::run_helper(queue)`.
template <typename Object>
class RunQueue final : public workers::Job {
 public:
  static RunQueue& instance() {
    static base::NeverDestroyed<RunQueue> queue;
    return queue.get();
  }

  // The object has something to begin. False: there are no workers, or the object was dropped, and may be gone when its
  // last pin is; the caller does the work. With a pin of it.
  bool schedule(Object& object) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (object.link.dropped) return false;
      if (!object.link.listed) append(object);
    }
    if (call_workers(object.ready())) return true;
    const std::lock_guard lock(mutex_);
    if (object.link.listed) unlink(object);
    return false;
  }

  // For the end of an object, with a pin of it: no worker comes to it any more; those that are at it have pins.
  void drop(Object& object) noexcept {
    const std::lock_guard lock(mutex_);
    if (object.link.listed) unlink(object);
    object.link.dropped = true;
  }

  // The next one in turn that has something to begin. One is dropped, with a pin of it held, before it ends, so all
  // that are listed exist.
  template <typename PinOf>
  auto next(const PinOf& pin_of) noexcept -> decltype(pin_of(*static_cast<Object*>(nullptr))) {
    const std::lock_guard lock(mutex_);
    while (first_ != nullptr) {
      Object& object = *first_;
      unlink(object);
      if (!object.has_waiting()) continue;
      if (auto pin = pin_of(object)) {
        append(object);
        return pin;
      }
    }
    return {};
  }

  bool has_waiting() noexcept {
    const std::lock_guard lock(mutex_);
    while (first_ != nullptr && !first_->has_waiting()) unlink(*first_);
    return first_ != nullptr;
  }

  bool has_waiting_besides(const Object& one) noexcept {
    const std::lock_guard lock(mutex_);
    for (const Object* object = first_; object != nullptr; object = object->link.next) {
      if (object != &one && object->has_waiting()) return true;
    }
    return false;
  }

  bool call_workers(unsigned helpers) noexcept {
    return workers::schedule_background(Object::background, *this, helpers);
  }
  void run_helper(unsigned /*number*/) noexcept override { Object::run_helper(*this); }

  // Around fork: the child has none of them.
  void before_fork() noexcept { mutex_.lock(); }
  void after_fork(bool in_child) noexcept {
    if (in_child) first_ = last_ = nullptr;
    mutex_.unlock();
  }

 private:
  void append(Object& object) noexcept {
    object.link = {last_, nullptr, true, false};
    (last_ != nullptr ? last_->link.next : first_) = &object;
    last_ = &object;
  }

  void unlink(Object& object) noexcept {
    (object.link.before != nullptr ? object.link.before->link.next : first_) = object.link.next;
    (object.link.next != nullptr ? object.link.next->link.before : last_) = object.link.before;
    object.link = {};
  }

  std::mutex mutex_;
  Object* first_ = nullptr;
  Object* last_ = nullptr;
};

}  // namespace sluice::process
