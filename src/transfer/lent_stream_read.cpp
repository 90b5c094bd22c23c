// SPDX-License-Identifier: Apache-2.0
// Kernels are launched aside (stream/channel/aside.h), before the first byte is read. From then on host and devices
// speak by words in memory, and what no kernel of these carries the one does that stands in the stream.
#include "transfer/lent_stream_read.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "base/adaptive_mutex.h"
#include "base/cooldown.h"
#include "base/deadline.h"
#include "base/event_count.h"
#include "gpu/peer_access.h"
#include "gpu/session.h"
#include "gpu/stream_scope.h"
#include "io/sentinel.h"
#include "observe/statistics.h"
#include "staging/neighbour.h"
#include "staging/shared_places.h"
#include "stream/channel/aside.h"
#include "transfer/device_read.h"
#include "transfer/pipeline.h"
#include "transfer/plan.h"
#include "transfer/sink/link_kernels.h"
#include "transfer/sink/stream_engine.h"
#include "transfer/source/page_cache.h"
#include "workers/reserve.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

using base::Outcome;

namespace {

// A driver that takes longer to answer may be waiting for the stream. Once it has answered, it makes contexts and
// memory of neighbours with the first read that wants them.
constexpr timespec driver_answers_within{.tv_sec = 0, .tv_nsec = 20'000'000};
constexpr timespec kernels_are_launched_within{.tv_sec = 0, .tv_nsec = 500'000'000};

// What the kernels of one read need. It is made and launched aside, and the stream's worker has it from then on, unless
// that has not waited for it.
class LaunchedAside {
 public:
  LaunchedAside(const FileRange& range, const ReadPlan& plan, const facts::BufferFacts& memory, cuda::DevicePtr to,
                const staging::LendingRules& lending, const gpu::StreamCopy& stream) noexcept
      : plan_(plan), chunks_(range, plan_, to), memory_(memory), to_(to), lending_(lending), stream_(stream) {}

  // Aside.
  void run() noexcept {
    const gpu::StreamScope scope(stream_.context());
    const bool is_there = scope.status() == cuda::success && stream_.serves(scope.context(), scope.context_id()) &&
                          stream_.await_driver() == cuda::success;
    if (!is_there || !goes(Step::asked, Step::answered)) return is_over();
    const gpu::Session session(memory_);
    if (!take(session) || step_.load() == Step::over) return is_over();
    kernels_->launch(chunks_, plan_);
    if (kernels_->any_of_neighbours() && goes(Step::answered, Step::launched)) return;
    kernels_->revoke();
    is_over();
  }

  // By the stream's worker. False: it goes without them.
  bool await() noexcept {
    wait_beyond(Step::asked, driver_answers_within);
    if (goes(Step::asked, Step::over)) return false;
    wait_beyond(Step::answered, kernels_are_launched_within);
    return !goes(Step::answered, Step::over) && step_.load(std::memory_order_acquire) == Step::launched;
  }

  // The same, once they are launched.
  Outcome read(const FileRange& range, stream::StreamCopier& copier) noexcept {
    StreamEngine engine(copier, *lease_);
    Pipeline<OneRange, WholeFile, LinkKernelsSink<StreamEngine>> pipeline(chunks_, WholeFile(range));
    pipeline.run(plan_, 1U, *kernels_, engine, places_->memory());
    if (pipeline.sink().lent_bytes() > 0) observe::count_by_neighbours(base::Direction::read, memory_.device);
    return pipeline.failure() != cuda::success ? gpu::as_outcome(pipeline.failure()) : chunks_.answer();
  }
  // The thread aside may live a little longer than the read.
  void give_back() noexcept {
    kernels_.reset();
    neighbours_.reset();
    lease_.reset();
    places_.reset();
    in_use_.reset();
  }

 private:
  enum class Step : std::uint8_t { asked, answered, launched, over };

  bool goes(Step from, Step to) noexcept {
    if (!step_.compare_exchange_strong(from, to)) return false;
    event_.advance();
    return true;
  }
  void is_over() noexcept {
    step_.store(Step::over);
    event_.advance();
  }
  void wait_beyond(Step step, const timespec& most) const noexcept {
    const timespec deadline = base::deadline_after(most);
    for (bool in_time = true; in_time;) {
      const std::uint32_t seen = event_.now();
      if (step_.load(std::memory_order_acquire) != step) return;
      in_time = event_.wait_beyond(seen, deadline);
    }
  }

  bool take(const gpu::Session& session) noexcept {
    if (session.status() != cuda::success || gpu::inspect(to_).kind != facts::MemoryKind::device) return false;
    in_use_.emplace(memory_.device);
    places_.emplace(staging::SharedPlaces::take(session));
    if (!*places_) return false;
    const cuda::DevicePtr places_there = gpu::seen_from_here(places_->memory());
    lease_.emplace(staging::StagingLease::take(session));
    if (places_there == 0 || !*lease_) return false;
    const staging::KernelReach reach{to_, plan_.bytes, places_->memory()};
    neighbours_.emplace(memory_.device, session, lending_, &reach, staging::Neighbours::Else::nothing);
    if (neighbours_->count() == 0) return false;
    const bool in_crowd = workers::active_jobs() + 1 >= 3;
    const bool by_own_kernel = lease_->device().can_gather() && lease_->kernel_worth_trying(plan_.bytes) &&
                               (!in_crowd || lease_->kernel_worth_trying_in_crowd());
    kernels_.emplace(chunks_, OwnLinkPart{*lease_, places_there, by_own_kernel}, neighbours_->all());
    return are_well();
  }

  // A driver that will not say how streams are would have their kernels taken for lost.
  bool are_well() noexcept {
    for (std::size_t i = 0; i < kernels_->all().size(); ++i) {
      if (kernels_->lease_of(i).device().health() != cuda::success) return false;
    }
    return true;
  }

  const ReadPlan plan_;
  OneRange chunks_;
  const facts::BufferFacts memory_;
  const cuda::DevicePtr to_;
  const staging::LendingRules lending_;
  const gpu::StreamCopy stream_;
  // One thread's at a time, and made in this order.
  std::optional<staging::LinkInUse> in_use_;
  std::optional<staging::SharedPlaces> places_;
  std::optional<staging::StagingLease> lease_;
  std::optional<staging::Neighbours> neighbours_;
  std::optional<LinkKernels> kernels_;
  std::atomic<Step> step_{Step::asked};
  base::EventCount event_;
};

// Waiting in vain costs more than a read by the own link: then streams go that way for a while.
class Rest {
 public:
  bool is_over() noexcept {
    const std::lock_guard lock(mutex_);
    return cooldown_.is_over(base::TimedCooldown::Clock::now());
  }
  void has_ended(bool well) noexcept {
    const std::lock_guard lock(mutex_);
    if (well) return cooldown_.forget();
    cooldown_.begin(base::TimedCooldown::Clock::now());
  }

 private:
  base::AdaptiveMutex mutex_;
  base::TimedCooldown cooldown_;
};
Rest rest_of_all;

// Streams that have work at the same time share the processors.
ReadPlan plan_lent_stream_read(const FileRange& range, cuda::DevicePtr to) noexcept {
  ReadPlan plan =
      plan_lent_kernel_read(range, to, staging::SharedPlaces::room, workers::worker_count(), workers::reserve_count());
  plan.helpers = stream::helpers_for_a_stream(plan.helpers);
  return plan;
}

std::shared_ptr<LaunchedAside> launch_aside(const FileRange& range, const facts::BufferFacts& memory,
                                            cuda::DevicePtr to, const staging::LendingRules& lending,
                                            const gpu::StreamCopy& stream) noexcept try {
  auto made = std::make_shared<LaunchedAside>(range, plan_lent_stream_read(range, to), memory, to, lending, stream);
  return stream::run_aside([made] { made->run(); }) ? made : nullptr;
} catch (const std::exception&) {
  return nullptr;
}

}  // namespace

std::optional<Outcome> read_in_stream_by_links(const FileRange& range, stream::StreamCopier& copier,
                                               const facts::BufferFacts& memory, cuda::DevicePtr to,
                                               const staging::LendingRules& lending) noexcept {
  if (!lending.by_kernel || !copier.has_kernel() || !io::Sentinel::is_there() ||
      !is_worth_lending(range.length, workers::active_jobs(), lending.least_bytes) || !seems_cached(range)) {
    return std::nullopt;
  }
  if (!rest_of_all.is_over()) return std::nullopt;
  const std::shared_ptr<LaunchedAside> launched = launch_aside(range, memory, to, lending, copier.device());
  if (launched == nullptr) return std::nullopt;
  const bool in_time = launched->await();
  rest_of_all.has_ended(in_time);
  if (!in_time) return std::nullopt;
  const Outcome read = launched->read(range, copier);
  launched->give_back();
  return read;
}

}  // namespace sluice::transfer
