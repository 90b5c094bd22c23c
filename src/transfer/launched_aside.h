// SPDX-License-Identifier: Apache-2.0
// Kernels of a read by several links that are launched on a thread aside (workers/aside.h), before the first byte is
// read. Who reads waits for them for a while, and goes without them then: no call of the driver's for a neighbour is
// waited for without an end.
//
//   reader:  asked -------> answered -------> launched ---> reads
//              |                |
//              +----------------+--> over: goes without; aside, what is launched is revoked, and all is given back
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/adaptive_mutex.h"
#include "base/cooldown.h"
#include "base/event_count.h"
#include "facts/buffer.h"
#include "gpu/primary_context.h"
#include "gpu/stream_copy.h"
#include "staging/neighbour.h"
#include "staging/shared_places.h"
#include "transfer/file_range.h"
#include "transfer/layout.h"
#include "transfer/plan.h"
#include "transfer/sink/link_kernel.h"

namespace sluice::transfer {

class LaunchedAside {
 public:
  struct Wanted {
    facts::BufferFacts memory;  // the target
    cuda::DevicePtr to;
    const staging::LendingRules* lending;
    std::uint64_t relay_bytes = 0;  // staging::KernelReach
    // Of the target's context, where lending was not asked for: then it has to be the primary one, which can be kept
    // from ending while the thread aside works in it.
    unsigned long long context_id = 0;
    // A stream of the program's that waits for the read, whose worker calls no driver: the target's own kernel is
    // launched aside, too, once the driver has answered for that stream.
    const gpu::StreamCopy* stream = nullptr;
  };
  // Null: the thread is at work for another read, or there is no memory.
  static std::shared_ptr<LaunchedAside> begin(const FileRange& range, const ReadPlan& plan,
                                              const Wanted& wanted) noexcept;
  LaunchedAside(const FileRange& range, const ReadPlan& plan, const Wanted& wanted) noexcept;

  // A driver that takes longer to answer may be waiting for the reader. Once it has answered, it makes contexts and
  // memory of neighbours with the first read that wants them.
  struct Patience {
    std::chrono::milliseconds answered;
    std::chrono::milliseconds launched;
  };
  // By the reader, as all that follows. If not launched, it goes without them, and no kernel of these waits for
  // anything.
  enum class Answer : std::uint8_t { launched, refused, late };
  Answer await(const Patience& patience) noexcept;
  // Where it was refused: the target's context is not a primary one that can be held.
  bool is_elsewhere() const noexcept { return is_elsewhere_; }

  const ReadPlan& plan() const noexcept { return plan_; }
  OneRange& chunks() noexcept { return chunks_; }
  LinkKernels& kernels() noexcept { return *kernels_; }
  std::byte* places() const noexcept { return places_->memory(); }
  // As the target sees them.
  cuda::DevicePtr places_there() const noexcept { return places_there_; }
  // A stream's.
  staging::StagingLease& lease() noexcept { return *lease_; }
  // When the read is over. The thread aside may live a little longer.
  void give_back() noexcept;

 private:
  enum class Step : std::uint8_t { asked, answered, launched, over };

  void run() noexcept;
  bool holds_target() noexcept;
  bool take(const gpu::Session& session) noexcept;
  void take_own() noexcept;
  bool is_given_up() const noexcept { return step_.load(std::memory_order_relaxed) == Step::over; }
  bool are_well() noexcept;

  bool goes(Step from, Step to) noexcept;
  void is_over() noexcept;
  void wait_beyond(Step step, std::chrono::milliseconds most) const noexcept;

  const ReadPlan plan_;
  OneRange chunks_;
  const facts::BufferFacts memory_;
  const cuda::DevicePtr to_;
  const staging::LendingRules lending_;
  const std::uint64_t relay_bytes_;
  const unsigned long long context_id_;
  const std::optional<gpu::StreamCopy> stream_;
  // One thread's at a time, and made in this order.
  gpu::PrimaryContextHold target_;
  std::optional<staging::LinkInUse> in_use_;
  std::optional<staging::SharedPlaces> places_;
  std::optional<staging::StagingLease> lease_;
  std::optional<staging::Neighbours> neighbours_;
  std::optional<LinkKernels> kernels_;
  cuda::DevicePtr places_there_ = 0;
  base::AdaptiveMutex launching_;  // of the kernels, once that has begun
  bool has_begun_ = false;
  bool is_elsewhere_ = false;  // the thread aside's until the step is over
  std::atomic<Step> step_{Step::asked};
  base::EventCount event_;
};

// Waiting in vain costs more than a read by the own link: then reads go that way for a while.
class RestFromAside {
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

}  // namespace sluice::transfer
