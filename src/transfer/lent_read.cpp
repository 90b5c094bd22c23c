// SPDX-License-Identifier: Apache-2.0
// By kernels what the page cache has; else by copies, with helpers or with a ring.
#include "transfer/lent_read.h"

#include <span>

#include "gpu/memory.h"
#include "gpu/peer_access.h"
#include "io/sentinel.h"
#include "io/uring.h"
#include "observe/statistics.h"
#include "staging/more_buffers.h"
#include "staging/neighbour.h"
#include "staging/shared_places.h"
#include "transfer/hand_on.h"
#include "transfer/pipeline.h"
#include "transfer/plan.h"
#include "transfer/sink/link_kernels.h"
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

Outcome read_by_kernels(const FileRange& range, staging::StagingLease& lease, const Target& target,
                        const staging::SharedPlaces& places, std::span<staging::NeighbourLease> neighbours,
                        unsigned others) noexcept {
  const ReadPlan plan = plan_lent_kernel_read(range, target.at, staging::SharedPlaces::room, workers::worker_count(),
                                              workers::reserve_count());
  const bool in_crowd = others + 1 >= 3;
  const OwnLinkPart own{
      .lease = lease,
      .places_there = gpu::seen_from_here(places.memory()),
      .by_kernel = lease.kernel_worth_trying(range.length) && (!in_crowd || lease.kernel_worth_trying_in_crowd())};
  OneRange chunks(range, plan, target.at);
  LinkKernels kernels(chunks, own, neighbours);
  OwnCopyEngine engine(lease);
  Pipeline<OneRange, WholeFile, LinkKernelsSink<OwnCopyEngine>> pipeline(chunks, WholeFile(range));
  pipeline.run(plan, 1U, kernels, engine, places.memory());
  return answer(pipeline, chunks, target);
}

}  // namespace

std::optional<Outcome> read_by_links(const FileRange& range, staging::StagingLease& lease, const Target& target,
                                     CopyEngine engine, unsigned others) noexcept {
  const unsigned beside = others + (HandOn::is_awaited() ? 1 : 0);
  if (!is_worth_lending(range.length, beside, target.lending->least_bytes)) return std::nullopt;
  const io::CompletionMode completion = range.disk.ring_to_use();
  const bool by_ring = range.block > 1;
  if (by_ring && !range.disk.takes_rings()) return std::nullopt;
  const io::Uring::Use ring = by_ring ? io::Uring::of_this_thread(completion) : io::Uring::Use(nullptr);
  if (by_ring && !ring) return std::nullopt;
  const bool by_kernels = may_go_by_kernels(range, lease, target, engine);
  const auto places = by_kernels ? staging::SharedPlaces::take(*target.session) : staging::SharedPlaces();
  const staging::KernelReach reach{target.at, range.length, places.memory()};
  staging::Neighbours neighbours(target.device, *target.session, *target.lending, places ? &reach : nullptr);
  if (neighbours.count() == 0) return std::nullopt;
  if (neighbours.by_kernels()) return read_by_kernels(range, lease, target, places, neighbours.all(), others);
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
