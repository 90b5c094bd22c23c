// SPDX-License-Identifier: Apache-2.0
#include "gdsio/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <latch>
#include <map>
#include <memory>
#include <mutex>

#include "common/error.h"
#include "common/gpu.h"
#include "common/progress.h"
#include "common/thread_group.h"
#include "gdsio/node.h"
#include "gdsio/target.h"
#include "gdsio/ways.h"
#include "gdsio/worker.h"

namespace sluice::tools {
namespace {

using RunClock = std::chrono::steady_clock;

bool wants_gpu(const Settings& settings) {
  if (settings.transfer == Transfer::cpu_only) return false;
  return needs_gpu(settings.memory) || settings.transfer == Transfer::gpu_async ||
         settings.transfer == Transfer::gpu_batch_stream;
}

// All that a pass works with, in the order in which it has to end.
struct Stage {
  Stage() = default;
  Stage(Stage&&) = default;
  // The last first: where two jobs make one file longer, each finds the end that it has set.
  ~Stage() {
    workers.clear();
    while (!targets.empty()) targets.pop_back();
  }

  std::map<int, std::unique_ptr<Gpu>> gpus;
  std::vector<std::vector<std::unique_ptr<Target>>> targets;  // by job
  std::vector<std::unique_ptr<Worker>> workers;
};

Stage set_up(const Settings& settings) {
  Stage stage;
  unsigned number = 0;
  for (const JobSettings& job : settings.jobs) {
    if (job.node) want_node(*job.node);
    const Gpu* gpu = nullptr;
    if (wants_gpu(settings)) {
      auto& place = stage.gpus[job.gpu];
      if (!place) {
        place = std::make_unique<Gpu>(job.gpu);
        if (settings.reach_others) place->reach_others();
      }
      gpu = place.get();
    }
    stage.targets.push_back(open_targets(settings, job));
    const unsigned count = threads_of(settings, job);
    for (unsigned i = 0; i < count; ++i) {
      stage.workers.push_back(std::make_unique<Worker>(settings, job, stage.targets.back(), gpu, i, count, number++));
    }
  }
  if (settings.cold) {
    for (const auto& targets : stage.targets) {
      for (const auto& target : targets) target->make_cold();
    }
  }
  return stage;
}

// The threads of a pass, from their start to their end.
class WorkerThreads {
 public:
  WorkerThreads(const Settings& settings, Stage& stage)
      : settings_(&settings),
        stage_(&stage),
        ready_(static_cast<std::ptrdiff_t>(stage.workers.size())),
        open_(stage.workers.size()) {}

  // Returns the seconds from the moment when all were ready to the end of the last.
  double run(std::uint64_t size) {
    ThreadGroup threads;
    std::size_t started = 0;
    for (const auto& worker : stage_->workers) {
      if (!threads.start([this, &worker] { live(*worker); })) break;
      ++started;
    }
    if (started < stage_->workers.size()) give_up(started);
    ready_.wait();
    begin_ = RunClock::now();
    go_.count_down();
    watch(size);
    threads.join();
    if (failure_) std::rethrow_exception(failure_);
    return std::chrono::duration<double>(end_ - begin_).count();
  }

 private:
  void live(Worker& worker) {
    guarded([&] { worker.prepare(); });
    ready_.count_down();
    go_.wait();
    if (!shared_.stop) guarded([&] { worker.work(shared_, deadline()); });
    const auto end = RunClock::now();
    guarded([&] { worker.finish(); });
    const std::lock_guard lock(mutex_);
    end_ = std::max(end_, end);
    if (--open_ == 0) ended_.notify_all();
  }

  template <typename Action>
  void guarded(Action action) {
    try {
      action();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      shared_.stop = true;
    }
  }

  // Each thread has a part of the data, and the result says how many there were: fewer would be another measurement.
  [[noreturn]] void give_up(std::size_t started) {
    shared_.stop = true;
    go_.count_down();
    throw ToolError(fmt::format("{} of {} threads could be started.", started, stage_->workers.size()),
                    remedy_for_threads);
  }

  RunClock::time_point deadline() const {
    return begin_ + std::chrono::duration_cast<RunClock::duration>(
                        std::chrono::duration<double>(settings_->seconds.value_or(0)));
  }

  void watch(std::uint64_t size) {
    Progress progress(operation_name(settings_->operation));
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, std::chrono::milliseconds(250), [this] { return open_ == 0; })) {
      const std::uint64_t bytes = shared_.bytes;
      const double passed = std::chrono::duration<double>(RunClock::now() - begin_).count();
      const double share = settings_->seconds
                               ? passed / *settings_->seconds
                               : static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(size, 1));
      progress.show(bytes, share);
    }
  }

  const Settings* settings_;
  Stage* stage_;
  Shared shared_;
  std::latch ready_;
  std::latch go_{1};
  RunClock::time_point begin_{};
  RunClock::time_point end_{};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t open_;
  std::exception_ptr failure_;
};

PassResult collect(const Settings& settings, const Stage& stage) {
  PassResult result;
  for (std::size_t i = 0; i < settings.jobs.size(); ++i) {
    const JobSettings& job = settings.jobs[i];
    JobResult one;
    one.name = job.name;
    one.threads = threads_of(settings, job);
    one.depth = depth_of(settings, job);
    for (const auto& target : stage.targets[i]) one.size += target->size();
    for (const auto& worker : stage.workers) {
      if (&worker->job() != &job) continue;
      one.bytes += worker->bytes();
      one.latencies.add(worker->latencies());
    }
    result.total.threads += one.threads;
    result.total.depth = std::max(result.total.depth, one.depth);
    result.total.size += one.size;
    result.total.bytes += one.bytes;
    result.total.latencies.add(one.latencies);
    result.jobs.push_back(std::move(one));
  }
  return result;
}

}  // namespace

PassResult run_pass(const Settings& settings) {
  Stage stage = set_up(settings);
  std::uint64_t size = 0;
  for (const auto& targets : stage.targets) {
    for (const auto& target : targets) size += target->size();
  }
  const WayCounts ways;
  const double seconds = WorkerThreads(settings, stage).run(size);
  for (const auto& targets : stage.targets) {
    for (const auto& target : targets) target->keep();
  }
  PassResult result = collect(settings, stage);
  result.seconds = seconds;
  result.library_tells = ways.known();
  result.ways = ways.since();
  return result;
}

}  // namespace sluice::tools
