// SPDX-License-Identifier: Apache-2.0
#include "transfer/launched_aside.h"

#include <time.h>

#include <exception>
#include <utility>

#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "gpu/peer_access.h"
#include "gpu/peers.h"
#include "gpu/session.h"
#include "gpu/stream_scope.h"
#include "workers/aside.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

LaunchedAside::LaunchedAside(const FileRange& range, const ReadPlan& plan, const Wanted& wanted) noexcept
    : plan_(plan),
      chunks_(range, plan_, wanted.to),
      memory_(wanted.memory),
      to_(wanted.to),
      lending_(*wanted.lending),
      relay_bytes_(wanted.relay_bytes),
      context_id_(wanted.context_id),
      stream_(wanted.stream != nullptr ? std::optional(*wanted.stream) : std::nullopt) {}

std::shared_ptr<LaunchedAside> LaunchedAside::begin(const FileRange& range, const ReadPlan& plan,
                                                    const Wanted& wanted) noexcept try {
  auto made = std::make_shared<LaunchedAside>(range, plan, wanted);
  return workers::run_aside([made] { made->run(); }) ? made : nullptr;
} catch (const std::exception&) {
  return nullptr;
}

LaunchedAside::Answer LaunchedAside::await(const Patience& patience) noexcept {
  wait_beyond(Step::asked, patience.answered);
  if (goes(Step::asked, Step::over)) return Answer::late;
  wait_beyond(Step::answered, patience.launched);
  if (!goes(Step::answered, Step::over)) {
    return step_.load(std::memory_order_acquire) == Step::launched ? Answer::launched : Answer::refused;
  }
  // The program may wait for its device next, which has what is launched.
  const std::lock_guard lock(launching_);
  if (has_begun_) kernels_->give_up();
  return Answer::late;
}

void LaunchedAside::give_back() noexcept {
  kernels_.reset();
  neighbours_.reset();
  lease_.reset();
  places_.reset();
  in_use_.reset();
  target_.end();
}

// Aside, as all that follows.
void LaunchedAside::run() noexcept {
  std::optional<gpu::StreamScope> scope;
  if (stream_) scope.emplace(stream_->context());
  const bool is_there =
      !stream_ || (scope->status() == cuda::success && stream_->serves(scope->context(), scope->context_id()) &&
                   stream_->begin_trial(gpu::stream_copy_bytes) == cuda::success);
  if (!is_there || !goes(Step::asked, Step::answered)) return is_over();
  if (!lending_.asked && !holds_target()) return is_over();
  std::optional<gpu::Session> session(std::in_place, memory_);
  if (!take(*session)) return is_over();
  {
    const std::lock_guard lock(launching_);
    if (is_given_up()) return is_over();
    has_begun_ = true;
  }
  kernels_->launch(chunks_, plan_, launching_);
  bool any = false;
  {
    const std::lock_guard lock(launching_);
    any = kernels_->any_of_neighbours();
  }
  session.reset();  // the reader may let the program end the context
  if (any && goes(Step::answered, Step::launched)) return;
  {
    const std::lock_guard lock(launching_);
    kernels_->give_up();
  }
  is_over();
}

// A reader that has given up may be about to end it.
bool LaunchedAside::holds_target() noexcept {
  if (is_given_up()) return false;
  const bool has_primary = target_.begin(memory_.device);
  is_elsewhere_ = has_primary ? target_.context() != memory_.context || target_.context_id() != context_id_
                              : !gpu::is_in_use(memory_.device);
  return has_primary && !is_elsewhere_ && !is_given_up();
}

// The reader may have given up, and the program may go on: then nothing more is asked for.
bool LaunchedAside::take(const gpu::Session& session) noexcept {
  if (session.status() != cuda::success || gpu::inspect(to_).kind != facts::MemoryKind::device) return false;
  if (stream_) in_use_.emplace(memory_.device);  // a call has it itself
  places_.emplace(staging::SharedPlaces::take(session));
  if (!*places_ || is_given_up()) return false;
  places_there_ = gpu::seen_from_here(places_->memory());
  if (stream_) lease_.emplace(staging::StagingLease::take(session));
  if (places_there_ == 0 || (lease_ && !*lease_) || is_given_up()) return false;
  const staging::KernelReach reach{to_, plan_.bytes, places_->memory(), relay_bytes_};
  neighbours_.emplace(memory_.device, session, lending_, &reach, staging::Neighbours::Else::nothing);
  if (neighbours_->count() == 0 || is_given_up()) return false;
  kernels_.emplace(chunks_, neighbours_->all());
  if (stream_) take_own();
  return are_well();
}

void LaunchedAside::take_own() noexcept {
  const bool in_crowd = workers::active_jobs() + 1 >= 3;
  const bool by_kernel = lease_->device().can_gather() && lease_->kernel_worth_trying(plan_.bytes) &&
                         (!in_crowd || lease_->kernel_worth_trying_in_crowd());
  kernels_->has_own({*lease_, places_there_, by_kernel});
}

// A driver that will not say how streams are would have their kernels taken for lost.
bool LaunchedAside::are_well() noexcept {
  for (std::size_t i = stream_ ? 0 : 1; i < kernels_->all().size(); ++i) {
    if (kernels_->lease_of(i).device().health() != cuda::success) return false;
  }
  return true;
}

bool LaunchedAside::goes(Step from, Step to) noexcept {
  if (!step_.compare_exchange_strong(from, to)) return false;
  event_.advance();
  return true;
}

void LaunchedAside::is_over() noexcept {
  step_.store(Step::over);
  event_.advance();
}

void LaunchedAside::wait_beyond(Step step, std::chrono::milliseconds most) const noexcept {
  // The thread has most often done within some microseconds.
  for (base::SpinBackoff backoff; !backoff.long_since(); backoff.wait()) {
    if (step_.load(std::memory_order_acquire) != step) return;
  }
  const timespec deadline = base::deadline_in(most);
  for (bool in_time = true; in_time;) {
    const std::uint32_t seen = event_.now();
    if (step_.load(std::memory_order_acquire) != step) return;
    in_time = event_.wait_beyond(seen, deadline);
  }
}

}  // namespace sluice::transfer
