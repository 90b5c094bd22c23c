// SPDX-License-Identifier: Apache-2.0
// By kernels what the page cache has; else by copies, with helpers or with a ring.
#include "transfer/lent_read.h"

#include <atomic>
#include <chrono>
#include <memory>

#include "facts/processor_time.h"
#include "gpu/memory.h"
#include "gpu/peer_access.h"
#include "io/sentinel.h"
#include "io/uring.h"
#include "observe/statistics.h"
#include "staging/more_buffers.h"
#include "staging/neighbour.h"
#include "staging/shared_places.h"
#include "staging/steal_gauge.h"
#include "transfer/hand_on.h"
#include "transfer/launched_aside.h"
#include "transfer/pipeline.h"
#include "transfer/plan.h"
#include "transfer/sink/link_kernels.h"
#include "transfer/sink/own_copy_engine.h"
#include "transfer/sink/peer_gpu.h"
#include "transfer/source/page_cache.h"
#include "transfer/source/ring.h"
#include "workers/reserve.h"
#include "workers/slow_disk_gauge.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

using base::Outcome;

namespace {

template <typename Read>
Outcome answer(const Read& pipeline, const OneRange& chunks, const Target& target) noexcept {
  if (pipeline.sink().lent_bytes() > 0) observe::count_by_neighbours(base::Direction::read, target.device);
  return pipeline.failure() != cuda::success ? gpu::as_outcome(pipeline.failure()) : chunks.answer();
}

// The own link's part goes by what a read on it alone goes by. Memory of several allocations is left to copies, as
// there.
bool may_go_by_kernels(const FileRange& range, const staging::StagingLease& lease, const Target& target,
                       CopyEngine engine) noexcept {
  return target.lending->by_kernel && range.block == 1 &&
         kernel_may_carry({.wanted = engine,
                           .has_sentinel = engine != CopyEngine::engine && io::Sentinel::is_there(),
                           .cached = true,
                           .alike_aligned = can_be_gathered(range, target.at),
                           .is_loaded = lease.device().can_gather()}) &&
         (target.is_one_allocation || gpu::contiguous_bytes(target.at, range.length) == range.length);
}

ReadPlan plan_for_kernels(const FileRange& range, const Target& target) noexcept {
  return plan_lent_kernel_read(range, target.at, staging::SharedPlaces::room, workers::worker_count(),
                               workers::reserve_count());
}

// The target's own part is launched with the first chunk.
Outcome read_by_kernels(const FileRange& range, const ReadPlan& plan, OneRange& chunks, LinkKernels& kernels,
                        std::byte* places, cuda::DevicePtr places_there, staging::StagingLease& lease,
                        const Target& target, unsigned others) noexcept {
  const bool in_crowd = others + 1 >= 3;
  kernels.has_own(
      {.lease = lease,
       .places_there = places_there,
       .by_kernel = lease.kernel_worth_trying(range.length) && (!in_crowd || lease.kernel_worth_trying_in_crowd())});
  OwnCopyEngine engine(lease);
  Pipeline<OneRange, WholeFile, LinkKernelsSink<OwnCopyEngine>> pipeline(chunks, WholeFile(range));
  pipeline.run(plan, 1U, kernels, engine, places);
  return answer(pipeline, chunks, target);
}

// Where it was not asked for by name, a neighbour's driver is waited for no longer than this. (What is soft waits for
// processors itself.)
constexpr LaunchedAside::Patience patience_of_calls(bool soft) noexcept {
  const std::chrono::milliseconds each(soft ? 100 : 2);
  return {.answered = each, .launched = each};
}
RestFromAside rest_of_calls;
// The last context that is not its device's primary one, by its id: it is not asked about with each read. (0 is that of
// drivers without ids.)
std::atomic<unsigned long long> lends_nothing_to{0};

std::optional<Outcome> read_by_itself(const FileRange& range, staging::StagingLease& lease, const Target& target,
                                      std::uint64_t lenders, unsigned others) noexcept {
  const unsigned long long context_id = target.session->context_id();
  if (!rest_of_calls.is_over() || context_id == lends_nothing_to.load(std::memory_order_relaxed)) return std::nullopt;
  // In this context, of all that the memory may be seen in, and by those who may lend just now.
  facts::BufferFacts memory = *target.memory;
  memory.context = target.session->context();
  staging::LendingRules lending = *target.lending;
  lending.devices &= lenders;
  const LaunchedAside::Wanted wanted{.memory = memory,
                                     .to = target.at,
                                     .lending = &lending,
                                     .relay_bytes = staging::SharedPlaces::room,
                                     .context_id = context_id};
  const std::shared_ptr<LaunchedAside> launched = LaunchedAside::begin(range, plan_for_kernels(range, target), wanted);
  if (launched == nullptr) return std::nullopt;
  const LaunchedAside::Answer answered = launched->await(patience_of_calls(memory.soft));
  if (answered != LaunchedAside::Answer::refused) {
    rest_of_calls.has_ended(answered == LaunchedAside::Answer::launched);
  }
  if (answered == LaunchedAside::Answer::refused && launched->is_elsewhere()) {
    lends_nothing_to.store(context_id, std::memory_order_relaxed);
  }
  if (answered != LaunchedAside::Answer::launched) return std::nullopt;
  using Gauge = staging::StealGauge;
  const auto look = [] { return facts::read_processor_time(facts::Root{}); };
  const bool looks = !memory.soft;  // a soft GPU's own work is what takes the processors there
  const Gauge::Read looked_at = looks ? staging::steal_gauge.begins(Gauge::Clock::now(), look) : Gauge::Read{};
  const Outcome read = read_by_kernels(range, launched->plan(), launched->chunks(), launched->kernels(),
                                       launched->places(), launched->places_there(), lease, target, others);
  launched->give_back();
  if (looks) staging::steal_gauge.has_ended(looked_at, Gauge::Clock::now(), look);
  return read;
}

}  // namespace

std::optional<Outcome> read_by_links(const FileRange& range, staging::StagingLease& lease, const Target& target,
                                     CopyEngine engine, unsigned others) noexcept {
  const unsigned beside = others + (HandOn::is_awaited() ? 1 : 0);
  if (!is_worth_lending(range.length, beside, target.lending->least_bytes)) return std::nullopt;
  if (!target.lending->asked && !may_go_by_kernels(range, lease, target, engine)) return std::nullopt;
  const std::uint64_t lenders = staging::who_may_lend(target.device, *target.lending, staging::Idle::now);
  if (lenders == 0) return std::nullopt;
  if (!target.lending->asked) return read_by_itself(range, lease, target, lenders, others);
  const io::CompletionMode completion = range.disk.ring_to_use();
  const bool by_ring = range.block > 1;
  if (by_ring && !range.disk.takes_rings()) return std::nullopt;
  const io::Uring::Use ring = by_ring ? io::Uring::of_this_thread(completion) : io::Uring::Use(nullptr);
  if (by_ring && !ring) return std::nullopt;
  const bool by_kernels = may_go_by_kernels(range, lease, target, engine);
  const auto places = by_kernels ? staging::SharedPlaces::take(*target.session) : staging::SharedPlaces();
  const staging::KernelReach reach{target.at, range.length, places.memory(), staging::SharedPlaces::room};
  staging::Neighbours neighbours(target.device, *target.session, *target.lending, places ? &reach : nullptr);
  if (neighbours.count() == 0) return std::nullopt;
  if (neighbours.by_kernels()) {
    const ReadPlan plan = plan_for_kernels(range, target);
    OneRange chunks(range, plan, target.at);
    LinkKernels kernels(chunks, neighbours.all());
    return read_by_kernels(range, plan, chunks, kernels, places.memory(), gpu::seen_from_here(places.memory()), lease,
                           target, others);
  }
  // Readers finish out of order, and a place is free only when all before it have been given out: many are needed.
  const staging::MoreBuffers more(*target.session, staging::MoreBuffers::most);
  const auto buffers = static_cast<unsigned>(1 + 2 * neighbours.count() + more.count());
  const ReadPlan plan = plan_lent_read(range, buffers, workers::worker_count(), workers::reserve_count());
  OneRange chunks(range, plan, target.at);
  if (!by_ring) {
    Pipeline<OneRange, WholeFile, PeerGpuSink> pipeline(chunks, WholeFile(range));
    pipeline.run(plan, 1U, lease, neighbours.all(), more.all());
    return answer(pipeline, chunks, target);
  }
  const workers::SlowDiskGauge::Scope past_cache(workers::slow_disk_gauge, range.length);
  using FromRing = RingSource<WholeFile>;
  Pipeline<OneRange, FromRing, PeerGpuSink> pipeline(chunks, FromRing(*ring, WholeFile(range)));
  pipeline.run(plan, 1U, lease, neighbours.all(), more.all(), &past_cache);
  if (io::is_polled(completion) && pipeline.source().was_refused()) range.disk.cannot_be_polled();
  return answer(pipeline, chunks, target);
}

}  // namespace sluice::transfer
