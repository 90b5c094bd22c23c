// SPDX-License-Identifier: Apache-2.0
// One list for the process. A lock is taken by a batch that is posted and by a worker that looks for a batch; never for
// an entry.
#include "batch/batch_run_queue.h"

#include <mutex>
#include <utility>

#include "base/never_destroyed.h"
#include "batch/batch.h"
#include "workers/work_queue.h"

namespace sluice::batch {

namespace {

class BatchRunQueue final : public workers::Job {
 public:
  static BatchRunQueue& instance() {
    static base::NeverDestroyed<BatchRunQueue> queue;
    return queue.get();
  }

  // False: it was dropped, and may be gone when its last pin is.
  bool add(process::Process& process, Batch& batch) noexcept {
    const std::lock_guard lock(mutex_);
    if (batch.link.dropped) return false;
    process_ = &process;
    if (!batch.link.listed) append(batch);
    return true;
  }

  void take_away(Batch& batch) noexcept {
    const std::lock_guard lock(mutex_);
    if (batch.link.listed) unlink(batch);
  }

  void drop(Batch& batch) noexcept {
    const std::lock_guard lock(mutex_);
    if (batch.link.listed) unlink(batch);
    batch.link.dropped = true;  // nobody lists it again
  }

  void run_helper(unsigned /*number*/) noexcept override {
    for (BatchTable::Pin batch = next(); batch; batch = next()) {
      while (batch->run_some()) {
      }
    }
  }

  void before_fork() noexcept { mutex_.lock(); }
  void after_fork(bool in_child) noexcept {
    if (in_child) first_ = last_ = nullptr;
    mutex_.unlock();
  }

 private:
  // The next batch in turn that has something to begin. A batch is dropped from the list, with a pin of it held,
  // before it ends, so all that are listed exist.
  BatchTable::Pin next() noexcept {
    const std::lock_guard lock(mutex_);
    while (first_ != nullptr) {
      Batch& batch = *first_;
      unlink(batch);
      if (!batch.has_waiting()) continue;
      if (BatchTable::Pin pin = process_->batches().pin(batch.handle())) {
        append(batch);
        return pin;
      }
    }
    return {};
  }

  void append(Batch& batch) noexcept {
    batch.link = {last_, nullptr, true, false};
    (last_ != nullptr ? last_->link.next : first_) = &batch;
    last_ = &batch;
  }

  void unlink(Batch& batch) noexcept {
    (batch.link.before != nullptr ? batch.link.before->link.next : first_) = batch.link.next;
    (batch.link.next != nullptr ? batch.link.next->link.before : last_) = batch.link.before;
    batch.link = {};
  }

  std::mutex mutex_;
  process::Process* process_ = nullptr;
  Batch* first_ = nullptr;
  Batch* last_ = nullptr;
};

}  // namespace

bool schedule(process::Process& process, Batch& batch) noexcept {
  if (!BatchRunQueue::instance().add(process, batch)) return false;
  if (workers::schedule_background(BatchRunQueue::instance(), batch.waiting())) return true;
  BatchRunQueue::instance().take_away(batch);
  return false;
}

void unschedule(Batch& batch) noexcept {
  BatchRunQueue::instance().drop(batch);
}

void run_queue_before_fork() noexcept {
  BatchRunQueue::instance().before_fork();
}

void run_queue_after_fork(bool in_child) noexcept {
  BatchRunQueue::instance().after_fork(in_child);
}

}  // namespace sluice::batch
