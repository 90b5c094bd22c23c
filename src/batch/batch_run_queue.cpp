// SPDX-License-Identifier: Apache-2.0
#include "batch/batch_run_queue.h"

#include <atomic>

#include "base/never_destroyed.h"
#include "batch/batch.h"
#include "process/run_queue.h"
#include "workers/work_queue.h"

namespace sluice::batch {

namespace {

class BatchRunQueue final : public workers::Job {
 public:
  static BatchRunQueue& instance() {
    static base::NeverDestroyed<BatchRunQueue> queue;
    return queue.get();
  }

  bool add(process::Process& process, Batch& batch) noexcept {
    process_.store(&process, std::memory_order_relaxed);
    return queue_.add(batch);
  }
  process::RunQueue<Batch>& queue() noexcept { return queue_; }

  void run_helper(unsigned /*number*/) noexcept override {
    for (BatchTable::Pin batch = next(); batch; batch = next()) {
      // This one may have to wait for its storage, and a worker that is still to come counts for all batches that are
      // submitted until then: another one is to come for them.
      if (queue_.has_waiting_besides(*batch)) {
        static_cast<void>(workers::schedule_background(workers::Background::batches, *this, 1));
      }
      while (batch->run_some()) {
      }
    }
  }

 private:
  BatchTable::Pin next() noexcept {
    return queue_.next(
        [this](const Batch& batch) { return process_.load(std::memory_order_relaxed)->batches().pin(batch.handle()); });
  }

  process::RunQueue<Batch> queue_;
  std::atomic<process::Process*> process_{nullptr};
};

}  // namespace

bool schedule(process::Process& process, Batch& batch) noexcept {
  BatchRunQueue& all = BatchRunQueue::instance();
  if (!all.add(process, batch)) return false;
  if (workers::schedule_background(workers::Background::batches, all, batch.waiting())) return true;
  all.queue().take_away(batch);
  return false;
}

void unschedule(Batch& batch) noexcept {
  BatchRunQueue::instance().queue().drop(batch);
}

void run_queue_before_fork() noexcept {
  BatchRunQueue::instance().queue().before_fork();
}

void run_queue_after_fork(bool in_child) noexcept {
  BatchRunQueue::instance().queue().after_fork(in_child);
}

}  // namespace sluice::batch
