// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_run_queue.h"

#include <atomic>

#include "base/never_destroyed.h"
#include "plan/plan.h"
#include "process/run_queue.h"
#include "workers/work_queue.h"

namespace sluice::plan {

namespace {

class PlanRunQueue final : public workers::Job {
 public:
  static PlanRunQueue& instance() {
    static base::NeverDestroyed<PlanRunQueue> queue;
    return queue.get();
  }

  bool add(process::Process& process, Plan& plan) noexcept {
    process_.store(&process, std::memory_order_relaxed);
    return queue_.add(plan);
  }
  process::RunQueue<Plan>& queue() noexcept { return queue_; }

  void run_helper(unsigned /*number*/) noexcept override {
    process::Process& process = *process_.load(std::memory_order_relaxed);
    const PlanTable::Pin plan = queue_.next([&](const Plan& next) { return process.plans().pin(next.handle()); });
    if (!plan) return;
    // Another worker is to come for what is left: this one may have to wait for its storage.
    if (plan->ready() > 1 || queue_.has_waiting_besides(*plan)) {
      static_cast<void>(workers::schedule_background(workers::Background::plans, *this, 1));
    }
    plan->run_some();
    // This worker is to come again, or another one.
    if (plan->has_waiting()) {
      static_cast<void>(schedule(process, *plan));
    } else if (queue_.has_waiting()) {
      static_cast<void>(workers::schedule_background(workers::Background::plans, *this, 1));
    }
  }

 private:
  process::RunQueue<Plan> queue_;
  std::atomic<process::Process*> process_{nullptr};
};

}  // namespace

bool schedule(process::Process& process, Plan& plan) noexcept {
  PlanRunQueue& all = PlanRunQueue::instance();
  if (!all.add(process, plan)) return false;
  if (workers::schedule_background(workers::Background::plans, all, plan.ready())) return true;
  all.queue().take_away(plan);
  return false;
}

void unschedule(Plan& plan) noexcept {
  PlanRunQueue::instance().queue().drop(plan);
}

void run_queue_before_fork() noexcept {
  PlanRunQueue::instance().queue().before_fork();
}

void run_queue_after_fork(bool in_child) noexcept {
  PlanRunQueue::instance().queue().after_fork(in_child);
}

}  // namespace sluice::plan
